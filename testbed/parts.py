"""How each part is started, and where it says that it is well.

The flags are the upstream defaults unless a comment says why not.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from testbed import cache, components
from testbed.site import Site

_ROOT = str(Path(__file__).resolve().parent.parent)
IMPORTABLE = {"PYTHONPATH": os.pathsep.join(filter(None, [_ROOT, os.environ.get("PYTHONPATH")]))}
"""The environment of a Python process of ours, whose working directory is not this project's."""

_CLIENT_RATE = ("--kube-api-qps=500", "--kube-api-burst=1000")
"""So that the components' own manners are not what a test measures."""

_LAVISH = {"GOGC": "1000", "GOMEMLIMIT": "2000MiB"}
"""Memory for time: two cores have better things to do than to look for garbage."""

_QUIET = (
    "disruption-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
)
"""Controllers whose absence a client would notice, and which leave Nodes and Pods as they were made."""


_IDLE = ("ttl-controller",)
"""It tells kubelets, of which there are none, how long to keep Secrets: a write for every Node."""

_MARKING = ("node-lifecycle-controller", "taint-eviction-controller")
"""Controllers that write on Nodes."""


@dataclass(frozen=True, slots=True)
class Part:
    """A process of a test bed."""

    name: str
    command: tuple[str, ...]
    health: str = ""
    """The address that answers 200 once it is well; none for one that serves nothing."""
    environment: Mapping[str, str] = field(default_factory=dict)
    goes_first: bool = False
    """Either all others wait for it, or it stands for machines that have cores of their own. An API server that has to
    wait for one ends watches, everybody's: a new one lets each of them be ten events behind. And who plays kubelets and
    is a second late with it, because its watch was ended, makes every pod late."""


def of(site: Site) -> tuple[Part, ...]:
    """All parts that were chosen, in the order in which they need each other."""
    choice = site.choice
    return (
        etcd(site),
        apiserver(site),
        controller_manager(site),
        *([scheduler(site)] if choice.scheduler else []),
        *([kwok(site)] if choice.has_nodes else []),
        *([cluster_api(site), infrastructure(site)] if choice.capi else []),
    )


def etcd(site: Site) -> Part:
    peer = f"http://127.0.0.1:{site.ports.etcd_peer}"
    command = (
        cache.binary(components.ETCD),
        f"--data-dir={site.directory / 'etcd'}",
        "--unsafe-no-fsync",  # the data is disposable
        "--log-level=warn",
        "--backend-batch-interval=1s",  # what a crash would lose is in its log
        "--backend-batch-limit=100000",
        f"--listen-client-urls={site.etcd}",
        f"--advertise-client-urls={site.etcd}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
    )
    return Part("etcd", command, f"{site.etcd}/health", _LAVISH, goes_first=True)


def apiserver(site: Site) -> Part:
    command = (
        cache.binary(components.KUBE_APISERVER),
        *_serving(site, site.ports.apiserver),
        f"--etcd-servers={site.etcd}",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",  # a loopback address may not go into Endpoints
        "--service-cluster-ip-range=10.96.0.0/16",
        f"--client-ca-file={site.files.ca}",
        f"--token-auth-file={site.files.tokens}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={site.files.service_accounts}",
        f"--service-account-signing-key-file={site.files.service_accounts}",
        "--max-requests-inflight=2000",
        "--max-mutating-requests-inflight=1000",
        "--profiling=false",
        *(_auditing(site) if site.choice.audited else ()),
    )
    lavish = {**_LAVISH, "GOGC": "off"}  # it has the most garbage, and its limit
    return Part("kube-apiserver", command, f"{site.server}/readyz", lavish, goes_first=True)


def controller_manager(site: Site) -> Part:
    command = (
        cache.binary(components.KUBE_CONTROLLER_MANAGER),
        *_serving(site, site.ports.controllers),
        *_as_user(site, "controllers"),
        f"--controllers={_controllers(site)}",
        "--use-service-account-credentials",  # as one user, RBAC would not let it create ReplicaSets
        f"--root-ca-file={site.files.ca}",
        f"--service-account-private-key-file={site.files.service_accounts}",
        f"--cluster-signing-cert-file={site.files.ca}",
        f"--cluster-signing-key-file={site.files.ca_key}",
        *_CLIENT_RATE,
        "--node-monitor-grace-period=24h",  # nobody renews leases; a Node that falls silent is said to at once
    )
    health = f"https://127.0.0.1:{site.ports.controllers}/healthz"
    return Part("kube-controller-manager", command, health, _LAVISH)


def scheduler(site: Site) -> Part:
    command = (
        cache.binary(components.KUBE_SCHEDULER),
        *_serving(site, site.ports.scheduler),
        *_as_user(site, "scheduler"),
        *_CLIENT_RATE,
    )
    return Part("kube-scheduler", command, f"https://127.0.0.1:{site.ports.scheduler}/readyz", _LAVISH)


def kwok(site: Site) -> Part:
    address = f"127.0.0.1:{site.ports.kwok}"
    command = (
        cache.binary(components.KWOK),
        f"--config={site.stages}",
        f"--kubeconfig={site.kubeconfig('kwok')}",
        "--manage-all-nodes=false",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        # Nodes may be Ready before it knows of them. With leases it would leave out the pods that are bound until then.
        "--node-lease-duration-seconds=0",
        "--cidr=10.0.0.1/8",
        "--node-ip=127.0.0.1",
        f"--server-address={address}",
    )
    home = site.directory / "kwok"  # it merges a configuration that it finds at home
    environment = {"HOME": str(home), **_LAVISH}
    return Part("kwok", command, f"http://{address}/healthz", environment, goes_first=True)


def cluster_api(site: Site) -> Part:
    health = f"127.0.0.1:{site.ports.capi_health}"
    command = (
        cache.binary(components.CLUSTER_API),
        f"--webhook-port={site.ports.capi_webhooks}",
        f"--webhook-cert-dir={site.files.serving}",
        f"--health-addr={health}",
        f"--diagnostics-address=127.0.0.1:{site.ports.capi_diagnostics}",
        "--insecure-diagnostics",
        *_CLIENT_RATE,
        "--clustercache-client-qps=500",
        "--clustercache-client-burst=1000",
        "--machine-concurrency=4",  # on two cores ten would mostly overtake what they have written themselves
        "--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields",  # every CRD is new
        f"--feature-gates=ReconcilerRateLimiting={str(site.choice.capi_rate_limiting).lower()}"
        f",MachinePool={str(site.choice.capi_machine_pools).lower()}"
        f",ClusterTopology={str(site.choice.capi_topology).lower()}",
    )
    environment = {"KUBECONFIG": str(site.kubeconfig("capi")), **_LAVISH}
    return Part("capi-manager", command, f"http://{health}/readyz", environment)


def _controllers(site: Site) -> str:
    if not site.choice.has_nodes:
        return ",".join(_QUIET)
    unwanted = _IDLE if site.choice.node_lifecycle else (*_IDLE, *_MARKING)
    return ",".join(["*", *(f"-{name}" for name in unwanted)])


def infrastructure(site: Site) -> Part:
    command = (sys.executable, "-m", "testbed.infrastructure", str(site.kubeconfig("infrastructure")))
    return Part("infrastructure", command, environment=IMPORTABLE, goes_first=True)


def _serving(site: Site, port: int) -> tuple[str, ...]:
    return (
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={site.files.serving / 'tls.crt'}",
        f"--tls-private-key-file={site.files.serving / 'tls.key'}",
    )


def _auditing(site: Site) -> tuple[str, ...]:
    """Lists do not come as streams there, which older servers do not know: who follows a kind shows both its verbs."""
    return (
        "--feature-gates=WatchList=false",
        f"--audit-policy-file={site.audit_policy}",
        f"--audit-log-path={site.audit_log}",
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
    )


def _as_user(site: Site, user: str) -> tuple[str, ...]:
    flags = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    return (*(f"--{flag}={site.kubeconfig(user)}" for flag in flags), "--leader-elect=false")
