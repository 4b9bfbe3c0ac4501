"""`windlass operator`: the controllers, some or all of them, in one process."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from windlass.controllers import operator_process
    from windlass.kube import client

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""What Go calls them."""
_NEW_OBJECTS = 20_000
"""How many the garbage collector lets come before it looks at them."""
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
    lattice_autoscaler_image: str = "windlass:latest",
    lattice_autoscaler_discovery: str = "capi-system",
    machineset_sync_cluster: str = "",
    openshift_autoscaler_image: str = "windlass:latest",
    openshift_autoscaler_verbosity: Annotated[int, Parameter(env_var="CLUSTER_AUTOSCALER_VERBOSITY")] = 1,
    openshift_autoscaler_extra_args: Annotated[str, Parameter(env_var="CLUSTER_AUTOSCALER_EXTRA_ARGS")] = "",
    openshift_release_version: str = "",
    webhook_address: str = "",
    webhook_cert_dir: str = "",
    verbosity: Annotated[int, Parameter(name=["--verbosity", "-v"])] = 0,
) -> int:
    """Run controllers until asked to end.

    Controllers are independent of each other; each keeps one kind of object as it should be. machine_pool is Cluster
    API's MachinePool controller: turn the manager's own off (--feature-gates=MachinePool=false) where it runs.
    eks_anywhere and lattice look after the worker pools of EKS Anywhere's Clusters and of LatticeClusters, and leave
    the size of autoscaled ones to their autoscaler; their definitions are in deploy/crds. cluster_autoscaler and
    machine_autoscaler are OpenShift's cluster-autoscaler-operator, for MachineSets of Machine API and of Cluster API.

    Exit code: 0 if it ended when asked to, 1 if it failed or lost its lease, 2 if it could not begin with what it was
    given.

    Parameters
    ----------
    controllers
        Which ones, separated by commas: machine_pool, eks_anywhere, lattice, cluster_autoscaler, machine_autoscaler,
        machineset_sync.
    kubeconfig
        The cluster to talk to; otherwise KUBECONFIG, the cluster we run in, or ~/.kube/config.
    context
        A context of the kubeconfig; the current one if none is named.
    namespace
        Look at this namespace only.
    concurrency
        Objects that each controller looks after at the same time.
    metrics_address
        Where /metrics, /healthz and /readyz are served, as host:port; empty serves none.
    metrics_cert_dir
        A directory with a certificate, tls.crt, and its key, tls.key, to serve these over TLS; either may be replaced
        at any time.
    leader_elect
        Of several processes let one lead, and run only while leading.
    leader_elect_namespace
        Where the lease is; the namespace of the kubeconfig's context, or the one we run in, if none is named.
    leader_elect_name
        What the lease is called.
    kube_api_qps
        Calls a second to each API server, in the long run. Zero is no limit.
    kube_api_burst
        Calls at once, after a quiet time.
    record_duplicated_events
        Write an event that says the same of the same object at once and count it, not once in five minutes.
    machine_pool_rotate_bootstrap_secret
        Copy a bootstrap config's data secret name whenever it changes, over a user's as well, as Cluster API's own
        controller does.
    machine_pool_allow_insecure_kubeconfigs
        Let the kubeconfig of a workload cluster, in its Secret, name a server without TLS or one that is not verified,
        a proxy, or a loopback, link-local or metadata address. Whoever may write such a Secret can then have the
        operator connect to what only it can reach.
    eks_anywhere_namespace
        Where the MachineDeployments of EKS Anywhere's Clusters are.
    lattice_deploy_autoscaler
        Run an autoscaler in lattice-system as soon as a pool of a LatticeCluster is autoscaled.
    lattice_autoscaler_image
        The image that it is run from.
    lattice_autoscaler_discovery
        The namespace in which it looks for pools: that of the LatticeClusters.
    machineset_sync_cluster
        The Cluster of Cluster API that OpenShift's MachineSets belong to; otherwise what Infrastructure says.
    openshift_autoscaler_image
        The image that OpenShift's cluster autoscaler is run from.
    openshift_autoscaler_verbosity
        What it logs if the ClusterAutoscaler does not say.
    openshift_autoscaler_extra_args
        One more word for its command line, behind all others.
    openshift_release_version
        The version of OpenShift that is run: its feature gates count, and it is told to the cluster version operator.
        Otherwise RELEASE_VERSION of the environment.
    webhook_address
        Where webhooks of the controllers are served, over TLS, as host:port; empty serves none.
    webhook_cert_dir
        A directory with the certificate, tls.crt, and its key, tls.key.
    verbosity
        As klog has it: 9 shows every call.
    """
    # Not before they are needed: `windlass --help` should answer at once.
    import gc
    import logging
    import os
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
    logging.basicConfig(level=klog.verbosity_level(verbosity), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    release = openshift_release_version or os.environ.get("RELEASE_VERSION", "")
    asked = OperatorOptions(
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
                release_version=release,
            ),
            machine_autoscaler.MachineAutoscalerSettings(release_version=release),
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
    # Objects are read by the thousand and are no cycles: looking for garbage after every few hundred costs for nothing.
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
    rate = client.ClientSettings(
        writer=request_builders.WriteOptions("windlass"), qps=kube_api_qps, burst=kube_api_burst
    )
    try:
        return 0 if shutdown.execute(_run(asked, kubeconfig, context, rate)) else 1
    except leader_election.LeadershipLost as lost:
        logging.getLogger(__name__).error("%s", lost)
        return 1


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """What was asked for."""

    controllers: str
    settings: "operator_process.OperatorSettings"
    namespace: str
    concurrency: int
    address: str
    certificate: str
    """The directory of its certificate; empty: none is served over TLS."""
    lease: tuple[str, str] | None
    """(namespace, name); None: nobody is elected."""
    webhooks: tuple[str, str] | None
    """(host:port, directory of the certificate); None: none are served."""
    repeats_events: bool


async def _run(asked: OperatorOptions, kubeconfig: str, context: str, rate: "client.ClientSettings") -> None:
    from pathlib import Path

    import prometheus_client

    from windlass import clock
    from windlass.controllers import controller_runtime, operator_process
    from windlass.kube import events, rest_config

    real = clock.RealClock()
    found = rest_config.load_rest_config(real, kubeconfig, context)
    measures = controller_runtime.ControllerMetrics(prometheus_client.CollectorRegistry())
    lease = None
    if asked.lease is not None:
        lease = controller_runtime.LeaseSettings(asked.lease[0] or found.namespace, asked.lease[1])
    async with found.connect() as carrier:
        site = controller_runtime.new_controller_context(
            carrier,
            real,
            rate,
            measures,
            lease,
            namespace=asked.namespace,
            workers=asked.concurrency,
            event_window_s=0.0 if asked.repeats_events else events.WINDOW_S,
        )
        made = operator_process.new_controllers(asked.controllers, site, asked.settings)
        certificate = Path(asked.certificate) if asked.certificate else None
        webhooks = None
        if asked.webhooks is not None:
            found_hooks = operator_process.select_webhooks(asked.controllers, asked.settings)
            webhooks = operator_process.WebhookServer(asked.webhooks[0], Path(asked.webhooks[1]), found_hooks)
        await operator_process.run(made, site, address=asked.address, certificate=certificate, webhooks=webhooks)
