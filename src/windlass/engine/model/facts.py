"""Cluster facts: nodes, pods, volumes and the objects that filters and drain rules read, as plain frozen values.

They are API objects reduced to the fields that decisions read. A `PodShape` is all that filters can see of a pod.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.engine.model import dynamic_resources
from windlass.engine.model.dynamic_resources import ResourceSlices
from windlass.selectors import LabelSelector, NodeSelector, Operator, Requirement

Resources = tuple[tuple[str, int], ...]
"""Amounts by resource name, sorted by name, each name once."""

NO_RESOURCES: Resources = ()

NO_LABELS: Mapping[str, str] = {}

CPU = "cpu"

MEMORY = "memory"

EPHEMERAL_STORAGE = "ephemeral-storage"

PODS = "pods"

HOSTNAME = "kubernetes.io/hostname"

ZONE = "topology.kubernetes.io/zone"

REGION = "topology.kubernetes.io/region"

ZONE_BETA = "failure-domain.beta.kubernetes.io/zone"

REGION_BETA = "failure-domain.beta.kubernetes.io/region"

TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
"""Key of the taint that a node carries while it is being removed; Cluster Autoscaler's name."""

# ── Nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Taint:
    """A node repels pods that do not tolerate it. `effect` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str
    effect: str


TO_BE_DELETED_TAINT = Taint(TO_BE_DELETED, "", "NoSchedule")
"""What a node carries while it drains. `deleting` rows behave as if they had it."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node, or the template of one that does not exist yet."""

    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Resources = NO_RESOURCES
    capacity: Resources = NO_RESOURCES
    declared_features: frozenset[str] = frozenset()
    provider_id: str = ""
    created_s: float = 0.0
    conditions: tuple["Condition", ...] = ()
    slices: ResourceSlices = ()
    """Templates: what drivers would publish of the devices. Slices of nodes that exist are facts of their own."""
    csi_node: "CSINode | None" = None
    """Templates: the CSI drivers that a new node would have. CSINodes of nodes that exist are facts of their own."""
    unreadable: str = ""
    """Why not all of it could be read; empty of a node that could. Such a node is in use, stays, and is no example."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of an object: its type, its status (`True`, `False`, `Unknown`) and since when."""

    type: str
    status: str
    since_s: float = 0.0
    reason: str = ""


# ── Pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod toleration. An empty key with Exists tolerates every key, an empty effect every effect."""

    key: str
    operator: str
    """`Equal` or `Exists`; `Gt` or `Lt` where kube-scheduler compares integers."""
    value: str
    effect: str

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in ("Gt", "Lt"):
            return Requirement(self.key, Operator(self.operator), (self.value,)).accepts(taint.value)
        return self.operator == "Exists" or self.value == taint.value


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port claimed on the node itself. `ip` is `0.0.0.0` where none was named."""

    ip: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A hard topology spread constraint (DoNotSchedule); soft ones never refuse and are left out."""

    topology_key: str
    max_skew: int
    selector: LabelSelector | None
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


@dataclass(frozen=True, slots=True)
class PodAffinityTerm:
    """A required pod affinity or anti-affinity term.

    `namespaces` holds the pod's own namespace where the term names none and has no `namespace_selector`.
    """

    topology_key: str
    selector: LabelSelector | None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of a pod, by the API's name of its source: `persistentVolumeClaim`, `ephemeral`, `emptyDir` …"""

    name: str
    source: str
    claim: str = ""
    """The claim it uses: named for persistentVolumeClaim, derived (`<pod>-<volume>`) for ephemeral."""
    read_only: bool = False
    identity: tuple[str, ...] = ()
    """What names the disk behind an inline volume: the attributes that decide whether two volumes are the same."""
    medium: str = ""
    """`Memory` for an emptyDir that lives there."""
    driver: str = ""
    """The CSI driver of an inline CSI volume, or the one that took over an in-tree disk."""
    handle: str = ""
    """In-tree disk: the id by which that driver knows it. An inline CSI volume has none."""
    pod_uid: str = ""
    """Ephemeral: the pod whose own its claim must be."""


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A claim on devices that a pod uses (spec.resourceClaims)."""

    name: str
    """What the pod calls it."""
    claim: str | None = None
    """The ResourceClaim; None while it is not made yet, empty if none is needed after all."""
    is_made_for_pod: bool = False
    """Made from a template: it must be the pod's own."""
    is_known: bool = True
    """False where the pod names neither a claim nor a template."""
    pod_name: str = ""
    pod_uid: str = ""
    """Of a pod with a claim of its own; empty otherwise, so that pods which share a claim can be alike."""


@dataclass(frozen=True, slots=True)
class ExtendedRequest:
    """So many pieces of an extended resource for one container, or for several that run one after another.

    Asked for as devices where a device class stands for the resource.
    """

    name: str
    resource: str
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class PodSpec(dynamic_resources.CachedHash):
    """All that filters can see of a pod but its namespace and labels.

    Pods of one template share one spec, and ask for its hash often.
    """

    requests: Resources = NO_RESOURCES
    """What NodeResourcesFit counts: init and sidecar containers, overhead and pod-level resources included."""
    node_name: str = ""
    """The node that `spec.nodeName` asks for while the pod waits; not where a running pod is."""
    node_selector: tuple[tuple[str, str], ...] = ()
    node_affinity: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    affinity: tuple[PodAffinityTerm, ...] = ()
    anti_affinity: tuple[PodAffinityTerm, ...] = ()
    spread_fault: str = ""
    """kube-scheduler's words for a hard constraint whose selector it cannot parse: the pod then fits no node."""
    interpod_fault: str = ""
    """The same for terms of pod affinity and anti-affinity, preferred ones included."""
    volumes: tuple[Volume, ...] = ()
    """Volumes that a filter or a drain rule may look at; configuration (configMap, secret, projected …) is left out."""
    required_features: frozenset[str] = frozenset()
    priority: int | None = None
    """None where no admission set one: it counts as 0, but such a pod is never expendable."""
    claims: tuple[PodClaim, ...] = ()
    extended: tuple[ExtendedRequest, ...] = ()
    """By name. Every extended resource that the pod requests, whether or not a device class stands for it."""
    extended_claim: str = ""
    """The claim that the scheduler made for them before, if it did."""
    _hash: int = field(init=False, repr=False, default=0)

    def _key(self) -> tuple[object, ...]:
        return (
            self.requests, self.node_name, self.node_selector, self.node_affinity, self.tolerations, self.host_ports,
            self.spread, self.affinity, self.anti_affinity, self.spread_fault, self.interpod_fault, self.volumes,
            self.required_features, self.priority, self.claims, self.extended, self.extended_claim,
        )  # fmt: skip

    def without_claims(self) -> tuple[object, ...]:
        """All of it but its claims, to be compared."""
        return (*self._key()[:-3], self.extended, self.extended_claim)


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller that owns a pod."""

    api_version: str
    kind: str
    name: str
    uid: str


class PodHealth(enum.StrEnum):
    """The state of a bound pod that the eviction API checks, besides its disruption budgets."""

    READY = "Ready"
    """Guarded by its budget. Also a pod that waits for a node: nothing evicts it."""
    UNREADY = "Unready"
    """Runs without the condition Ready=True: its budget's unhealthyPodEvictionPolicy decides."""
    NOT_STARTED = "NotStarted"
    """Bound, in phase Pending (pulling its image, for example): no budget applies."""


class DrainBehavior(enum.StrEnum):
    """What Cluster API does with a pod when it drains the node of a Machine."""

    DRAIN = "Drain"
    """It is evicted."""
    SKIP = "Skip"
    """It is not evicted and not waited for: it ends with the Machine."""
    WAIT_COMPLETED = "WaitCompleted"
    """It is not evicted, and the drain waits until it has finished."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod: what filters see (`spec`, `labels`, `namespace`), where it is, and what its leaving depends on."""

    namespace: str
    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner: Owner | None = None
    spec: PodSpec = field(default_factory=PodSpec)
    digest: str = ""
    """Names the pod's whole spec less what never matters to scheduling (env, hostname, projected volumes): pods of
    one controller with equal labels and digest are one equivalence group."""
    node_name: str = ""
    """The node it is bound to; empty while it waits."""
    nominated_node: str = ""
    scheduler: str = "default-scheduler"
    phase: str = "Pending"
    restart_policy: str = "Always"
    created_s: float = 0.0
    deleted_s: float | None = None
    """When its deletion was requested (deletionTimestamp); None if it was not."""
    grace_s: float | None = None
    """spec.terminationGracePeriodSeconds."""
    unschedulable_since_s: float | None = None
    """When the scheduler marked it unschedulable (PodScheduled=False, reason Unschedulable)."""
    is_gated: bool = False
    """Scheduling gates keep the scheduler from looking at it."""
    scale_up_delay_s: float | None = None
    """Scale-up delay requested by its annotation; None without one."""
    unreadable: str = ""
    """Why not all of it could be read; empty of a pod that could. Such a pod is bound, and keeps its node."""
    health: PodHealth = PodHealth.READY
    drain_behavior: DrainBehavior = DrainBehavior.DRAIN
    """From the pod's label cluster.x-k8s.io/drain."""
    scheduling_reason: str = ""
    """Reason of the PodScheduled condition of a pending pod that the scheduler processed without a verdict, such as
    SchedulerError; empty of a pod that it has not processed, and of one that is unschedulable."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_terminating(self) -> bool:
        return self.deleted_s is not None


# ── Storage ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class PersistentVolume:
    """A volume that exists, what it may be claimed for and from where it can be reached."""

    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    capacity_bytes: int = 0
    access_modes: tuple[str, ...] = ()
    storage_class: str = ""
    volume_mode: str = "Filesystem"
    node_affinity: NodeSelector | None = None
    phase: str = ""
    claim_namespace: str = ""
    claim_name: str = ""
    claim_uid: str = ""
    terminating: bool = False
    source: str = ""
    """The API's name of the source (`csi`, `local`, `awsElasticBlockStore` …)."""
    driver: str = ""
    handle: str = ""
    """CSI: the volume handle. In-tree: the id by which its CSI driver would know it."""
    untranslatable: str = ""
    """Why an in-tree volume has no such id, if it has none."""
    attributes_class: str = ""
    """Its VolumeAttributesClass: a claim binds only to a volume that has the same."""


@dataclass(frozen=True, slots=True)
class PersistentVolumeClaim:
    """A request for a volume, bound or not."""

    namespace: str
    name: str
    uid: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner_uids: tuple[str, ...] = ()
    """Uid of the controlling owner; an ephemeral volume's claim must be its pod's own."""
    storage_class: str | None = None
    volume_name: str = ""
    request_bytes: int = 0
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    selector: LabelSelector | None = None
    phase: str = "Pending"
    terminating: bool = False
    attributes_class: str = ""
    selector_fault: str = ""
    """kube-scheduler's words for a selector that it cannot parse: no volume is found for such a claim."""


@dataclass(frozen=True, slots=True)
class StorageClass:
    """How volumes of a class come to be, and where they may."""

    name: str
    provisioner: str = ""
    waits_for_consumer: bool = False
    allowed_topologies: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = ()
    """Any of these; in each, every (key, values) must hold."""


@dataclass(frozen=True, slots=True)
class CSINode:
    """The CSI drivers on a node: how many volumes each may attach (None: no limit), and which in-tree plugins moved."""

    name: str
    drivers: tuple[tuple[str, int | None], ...] = ()
    migrated_plugins: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CSIDriver:
    """The fields of a CSIDriver that filters read."""

    name: str
    storage_capacity: bool = False
    """It publishes its storage capacity."""
    prevents_scheduling_if_missing: bool = False
    """Pods with volumes of it may run only where it is installed (since kube-scheduler 1.37)."""


@dataclass(frozen=True, slots=True)
class CSIStorageCapacity:
    """How much a driver could still provision, for a class, from where."""

    namespace: str
    name: str
    storage_class: str = ""
    node_topology: LabelSelector | None = None
    capacity_bytes: int | None = None
    maximum_volume_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class VolumeAttachment:
    """A persistent volume attached, or being attached, to a node."""

    name: str
    attacher: str = ""
    node_name: str = ""
    volume_name: str = ""


# ── Around the pods ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace and its labels, which namespace selectors read."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodDisruptionBudget:
    """A disruption budget and the number of pods that it allows to be evicted now."""

    namespace: str
    name: str
    selector: LabelSelector | None = None
    disruptions_allowed: int = 0
    allows_unhealthy: bool = False
    """Pods that run and are not Ready may be evicted, and are not charged: unhealthyPodEvictionPolicy is AlwaysAllow,
    or as many pods are healthy as the budget desires."""
    is_stale: bool = False
    """Its status is older than its spec: the API rejects evictions that are charged to it, whatever it allows."""


@dataclass(frozen=True, slots=True)
class Controller:
    """A ReplicaSet, ReplicationController, StatefulSet, Job or DaemonSet, as far as drain rules ask for it."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    replicas: int = 1
    creates_at_once: bool = True
    """Does it create all its pods at once? A StatefulSet that keeps an order waits for each before the next."""


Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PodProfile:
    """What selectors can see of a pod."""

    namespace: str
    labels: Labels
    """Visible labels, sorted by key."""
    terminating: bool

    @property
    def label_map(self) -> dict[str, str]:
        return dict(self.labels)


@dataclass(frozen=True, slots=True)
class PodShape:
    """What filters can see of a pod. `id` is its number in the table that made it."""

    id: int
    profile_id: int
    profile: PodProfile
    spec: PodSpec

    @property
    def namespace(self) -> str:
        return self.profile.namespace
