"""`windlass operator`: the controllers, some or all of them, in one process."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from windlass import errors, selectors

if TYPE_CHECKING:
    from windlass.controllers import operator_process
    from windlass.kube import client

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Names of log levels in Go."""
_NEW_OBJECTS = 20_000
"""New objects between two runs of the garbage collector."""
_Switch = Parameter(negative=(), show_default=False)


def operator(
    *,
    controllers: str = "machine_pool",
    kubeconfig: str = "",
    context: str = "",
    namespace: str = "",
    concurrency: int = 10,
    metrics_address: str = ":8080",
    metrics_cert_dir: str = "",
    leader_elect: bool = True,
    leader_elect_namespace: str = "",
    leader_elect_name: str = "windlass-operator",
    kube_api_qps: float = 50.0,
    kube_api_burst: int = 100,
    record_duplicated_events: Annotated[bool, _Switch] = False,
    machine_pool_rotate_bootstrap_secret: Annotated[bool, _Switch] = False,
    machine_pool_allow_insecure_kubeconfigs: Annotated[bool, _Switch] = False,
    eks_anywhere_namespace: str = "eksa-system",
    lattice_deploy_autoscaler: bool = True,
    lattice_autoscaler_image: str = "",
    lattice_autoscaler_discovery: str = "capi-system",
    machineset_sync_cluster: str = "",
    openshift_autoscaler_image: Annotated[str, Parameter(env_var="CLUSTER_AUTOSCALER_IMAGE")] = "",
    openshift_autoscaler_verbosity: Annotated[int, Parameter(env_var="CLUSTER_AUTOSCALER_VERBOSITY")] = 1,
    openshift_autoscaler_extra_args: Annotated[str, Parameter(env_var="CLUSTER_AUTOSCALER_EXTRA_ARGS")] = "",
    openshift_release_version: str = "",
    webhook_address: str = "",
    webhook_cert_dir: str = "",
    verbosity: Annotated[int, Parameter(name=["--verbosity", "-v"])] = 0,
) -> int:
    """Run controllers until SIGTERM.

    Controllers are independent of each other; each reconciles one kind of object. machine_pool is Cluster API's
    MachinePool controller: turn the manager's own off where it runs, by the gate MachinePool of capi-controller-manager
    alone, never by EXP_MACHINE_POOL (docs/machine-pool.md). eks_anywhere and lattice manage the worker pools of EKS
    Anywhere's Clusters and of LatticeClusters, except the size of autoscaled ones; what the products' own controllers
    make is adopted (docs/eks-anywhere.md, docs/lattice.md). cluster_autoscaler and machine_autoscaler are OpenShift's
    cluster-autoscaler-operator, for MachineSets of Machine API and of Cluster API.

    Exit code: 0 after SIGTERM, 1 if it failed or lost its lease, 2 if the arguments cannot be used.

    Parameters
    ----------
    controllers
        Names, separated by commas: machine_pool, eks_anywhere, lattice, cluster_autoscaler, machine_autoscaler,
        machineset_sync.
    kubeconfig
        Kubeconfig of the cluster; by default KUBECONFIG, the cluster of this pod, or ~/.kube/config.
    context
        Context of the kubeconfig; the current one by default.
    namespace
        Watch this namespace only.
    concurrency
        Concurrent reconciles of each controller.
    metrics_address
        Address of /metrics, /healthz and /readyz, as host:port; empty serves none.
    metrics_cert_dir
        Directory with a certificate, tls.crt, and its key, tls.key, to serve these over TLS; both may be rotated while
        it runs.
    leader_elect
        Elect a leader among several processes, and run controllers in the leader only.
    leader_elect_namespace
        Namespace of the Lease; by default that of the kubeconfig's context or of this pod.
    leader_elect_name
        Name of the Lease.
    kube_api_qps
        Sustained requests per second to each API server. Zero is no limit.
    kube_api_burst
        Requests in a burst to each API server.
    record_duplicated_events
        Record a repeated event of the same object at once, with a count, instead of once in five minutes.
    machine_pool_rotate_bootstrap_secret
        Copy a bootstrap config's data secret name whenever it changes, also over a name set by a user, as Cluster API's
        own controller does.
    machine_pool_allow_insecure_kubeconfigs
        Allow the kubeconfig of a workload cluster, in its Secret, to name a server without TLS or without verification,
        a proxy, or a loopback, link-local or metadata address. A user who may write such a Secret can then make the
        operator connect to addresses that only it can reach.
    eks_anywhere_namespace
        Namespace of the MachineDeployments of EKS Anywhere's Clusters.
    lattice_deploy_autoscaler
        Run an autoscaler in lattice-system as soon as a pool of a LatticeCluster is autoscaled.
    lattice_autoscaler_image
        Image of that autoscaler; by default that of this pod, which POD_NAME of the environment names, or
        windlass:latest.
    lattice_autoscaler_discovery
        Namespace in which it discovers pools: that of the LatticeClusters of lattice.io. For one of lattice.dev it is
        capi-NAME.
    machineset_sync_cluster
        Cluster API Cluster of OpenShift's MachineSets; by default the name in Infrastructure.
    openshift_autoscaler_image
        Image of OpenShift's cluster autoscaler; by default that of this pod, which POD_NAME of the environment names,
        or windlass:latest.
    openshift_autoscaler_verbosity
        Its log verbosity, unless the ClusterAutoscaler sets one.
    openshift_autoscaler_extra_args
        One more argument at the end of its command line.
    openshift_release_version
        The version of OpenShift: selects feature gates, and is reported to the cluster version operator. By default
        what ClusterVersion says, also while it changes.
    webhook_address
        Address of the controllers' webhooks, over TLS, as host:port; empty serves none.
    webhook_cert_dir
        Directory with the certificate, tls.crt, and its key, tls.key.
    verbosity
        Log verbosity as in klog: 9 logs every request.
    """
    # Imported late, so that `windlass --help` starts fast.
    import gc
    import logging
    import platform

    from windlass import klog
    from windlass.autoscaler import rbac
    from windlass.controllers import operator_process
    from windlass.controllers.eks_anywhere import model
    from windlass.controllers.lattice import model as lattice
    from windlass.controllers.machine_pool import model as machine_pool
    from windlass.controllers.openshift.cluster_autoscaler import model as cluster_autoscaler
    from windlass.controllers.openshift.machine_autoscaler import model as machine_autoscaler
    from windlass.controllers.openshift.machineset_sync import model as machineset_sync
    from windlass.kube import client, request_builders
    from windlass.runtime import leader_election, shutdown

    operator_process.parse_controller_names(controllers)
    _check_numbers(
        ("concurrency", concurrency, 1), ("kube-api-qps", kube_api_qps, 0), ("kube-api-burst", kube_api_burst, 1)
    )
    _check_namespaces(
        ("namespace", namespace),
        ("leader-elect-namespace", leader_elect_namespace),
        ("eks-anywhere-namespace", eks_anywhere_namespace),
        ("lattice-autoscaler-discovery", lattice_autoscaler_discovery),
    )
    logging.basicConfig(level=klog.verbosity_level(verbosity), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    options = OperatorOptions(
        controllers,
        operator_process.OperatorSettings(
            machine_pool.MachinePoolSettings(
                rotate_bootstrap_secret=machine_pool_rotate_bootstrap_secret,
                allow_insecure_kubeconfigs=machine_pool_allow_insecure_kubeconfigs,
            ),
            model.EksAnywhereSettings(namespace=eks_anywhere_namespace),
            lattice.LatticeSettings(
                deploys_autoscaler=lattice_deploy_autoscaler,
                autoscaler_image=lattice_autoscaler_image,
                autoscaler_discovery=lattice_autoscaler_discovery,
                autoscaler_rights=lattice.AutoscalerRules(*rbac.base_rules(lattice.SYSTEM_NAMESPACE)),
            ),
            cluster_autoscaler.ClusterAutoscalerSettings(
                image=openshift_autoscaler_image,
                verbosity=openshift_autoscaler_verbosity,
                extra_args=openshift_autoscaler_extra_args,
                architecture=_ARCHITECTURES.get(platform.machine(), platform.machine()),
                release_version=openshift_release_version,
            ),
            machine_autoscaler.MachineAutoscalerSettings(release_version=openshift_release_version),
            machineset_sync.MachineSetSyncSettings(cluster=machineset_sync_cluster),
        ),
        namespace,
        concurrency,
        metrics_address,
        metrics_cert_dir,
        (leader_elect_namespace, leader_elect_name) if leader_elect else None,
        (webhook_address, webhook_cert_dir) if webhook_address else None,
        record_duplicated_events,
    )
    # Decoded objects are many and hold no reference cycles: frequent garbage collections cost time and free nothing.
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
    rate = client.ClientSettings(
        writer=request_builders.WriteOptions("windlass"), qps=kube_api_qps, burst=kube_api_burst
    )
    try:
        return 0 if shutdown.execute(_run(options, kubeconfig, context, rate)) else 1
    except leader_election.LeadershipLost as lost:
        logging.getLogger(__name__).error("%s", lost)
        return 1


def _check_numbers(*given: tuple[str, float, int]) -> None:
    for name, found, least in given:
        if not least <= found < float("inf"):
            raise errors.InvalidInput(f"--{name}: found {found:g}, expected {least} or more")


def _check_namespaces(*given: tuple[str, str]) -> None:
    for name, found in given:
        if found and selectors.check_dns_label(found):
            raise errors.InvalidInput(f"--{name}: found {found!r}, expected the name of a namespace")


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """Options of the operator."""

    controllers: str
    settings: "operator_process.OperatorSettings"
    namespace: str
    concurrency: int
    address: str
    certificate: str
    """Directory of its certificate; empty: metrics are served without TLS."""
    lease: tuple[str, str] | None
    """(namespace, name) of the Lease; None: no leader election."""
    webhooks: tuple[str, str] | None
    """(host:port, directory of the certificate); None: no webhooks."""
    repeats_events: bool


async def _run(options: OperatorOptions, kubeconfig: str, context: str, rate: "client.ClientSettings") -> None:
    import os
    from pathlib import Path

    import prometheus_client

    from windlass import clock
    from windlass.controllers import controller_runtime, operator_process
    from windlass.kube import events, rest_config

    real = clock.RealClock()
    config = rest_config.load_rest_config(real, kubeconfig, context)
    measures = controller_runtime.ControllerMetrics(prometheus_client.CollectorRegistry())
    lease = None
    if options.lease is not None:
        lease = controller_runtime.LeaseSettings(options.lease[0] or config.namespace, options.lease[1])
    async with config.connect() as carrier:
        site = controller_runtime.new_controller_context(
            carrier,
            real,
            rate,
            measures,
            lease,
            namespace=options.namespace,
            workers=options.concurrency,
            event_window_s=0.0 if options.repeats_events else events.WINDOW_S,
        )
        pod = (os.environ.get("POD_NAMESPACE") or config.namespace, os.environ.get("POD_NAME", ""))
        settings = await operator_process.fill_autoscaler_image(options.controllers, options.settings, site.api, pod)
        made = operator_process.new_controllers(options.controllers, site, settings)
        certificate = Path(options.certificate) if options.certificate else None
        webhooks = None
        if options.webhooks is not None:
            found_hooks = operator_process.select_webhooks(options.controllers, settings)
            webhooks = operator_process.WebhookServer(options.webhooks[0], Path(options.webhooks[1]), found_hooks)
        await operator_process.run(made, site, address=options.address, certificate=certificate, webhooks=webhooks)
