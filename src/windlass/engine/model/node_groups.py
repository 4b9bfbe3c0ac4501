"""Node groups, their instances, sizes, options and owners, as the cloud provider reports them; Machine drain rules."""

from dataclasses import dataclass, field

from windlass.engine.model import facts
from windlass.selectors import EVERYTHING, LabelSelector


@dataclass(frozen=True, slots=True)
class MachineSelector:
    """Machines by their labels and by those of their Clusters: both must match."""

    machine: LabelSelector = EVERYTHING
    cluster: LabelSelector = EVERYTHING


@dataclass(frozen=True, slots=True)
class DrainedPodSelector:
    """Pods by their labels and by those of their namespaces: both must match."""

    pod: LabelSelector = EVERYTHING
    namespace: LabelSelector = EVERYTHING


@dataclass(frozen=True, slots=True)
class MachineDrainRule:
    """How Cluster API drains the pods of some Machines in the rule's namespace."""

    namespace: str
    name: str
    behavior: facts.DrainBehavior
    order: int = 0
    """Pods with a lower order are gone before those with a higher one are evicted. Only with behavior Drain."""
    machines: tuple[MachineSelector, ...] = ()
    """One of them must match; without any, all Machines of the namespace do."""
    pods: tuple[DrainedPodSelector, ...] = ()
    """One of them must match; without any, all pods do."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


# ── Node groups ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class InstanceError:
    """Why an instance could not be created."""

    kind: str
    """`OutOfResources` or `Other`: reported, never decided on."""
    code: str
    message: str = ""

    @property
    def said(self) -> str:
        """For people, in a line."""
        return f"{self.code}: {self.message}" if self.message else self.code


@dataclass(frozen=True, slots=True)
class Instance:
    """A machine of a group, whether or not a node has registered for it."""

    provider_id: str
    state: str = "Running"
    """`Running`, `Creating` or `Deleting`."""
    error: InstanceError | None = None
    """Set on an instance that is Creating and never will be created."""
    had_node: bool = False
    """The provider knows that it became a node: it is never removed for not having registered."""
    machine_drain_rules: tuple[str, ...] = ()
    """Keys of the MachineDrainRules that select the Machine, in the order in which they are asked."""
    unreadable_drain_rules: str = ""
    """Why it is not known which MachineDrainRules select the Machine; empty where it is known."""


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """What a group overrides of the settings; None where it follows them."""

    scale_down_utilization_threshold: float | None = None
    scale_down_gpu_utilization_threshold: float | None = None
    scale_down_unneeded_s: float | None = None
    scale_down_unready_s: float | None = None
    max_node_provision_s: float | None = None
    max_node_startup_s: float | None = None
    ignore_daemonsets_utilization: bool | None = None
    zero_or_max: bool = False
    """All or nothing: the group is only ever empty or full."""
    allow_non_atomic_scale_up_to_max: bool = False
    """Of an all-or-nothing group: the nodes that came stay if others did not."""


@dataclass(frozen=True, slots=True)
class ReplicasOwner:
    """A controller that applies `spec.replicas` of a group: it reverts every size that the autoscaler writes."""

    manager: str
    """Field manager, as in managedFields; of a MachinePool that is scaled by others, what its annotation names."""
    remedy: str
    """What the user changes so that the autoscaler owns the size."""
    api_version: str = ""
    """Of the group's object, and its uid: for events about it."""
    uid: str = ""
    is_topology: bool = True
    """It is the topology controller. If not, the infrastructure provider, after an autoscaler of its own."""

    @property
    def message(self) -> str:
        """For people, in a line."""
        manager = (
            self.manager if self.is_topology else f"the infrastructure provider (replicas-managed-by: {self.manager})"
        )
        return f"spec.replicas is applied by {manager}, which reverts every other size: {self.remedy}"


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """A node group: nodes of one template, scaled between a minimum and a maximum size."""

    id: str
    min_size: int
    max_size: int
    target_size: int
    instances: tuple[Instance, ...] = ()
    template: facts.Node | None = None
    """The provider's template of a new node; None if it has none."""
    options: GroupOptions = field(default_factory=GroupOptions)
    exists: bool = True
    price_per_hour: float | None = None
    """Hourly price of a node, in any currency; None if unknown."""
    is_rolling_out: bool = False
    """Its machines are being replaced. Lowering the size now could delete any of them, so none is removed."""
    can_choose: bool = True
    """Whether the provider can delete a given instance. If not, the group can only be removed as a whole."""
    kept: frozenset[str] = frozenset()
    """Provider ids of instances that cannot be removed now, because no controller would act on it."""
    template_pods: tuple[facts.Pod, ...] = ()
    """Pods that the provider reports for a new node, besides DaemonSet pods."""
    replicas_owner: ReplicasOwner | None = None
    """Set if another controller applies the size."""


@dataclass(frozen=True, slots=True)
class HeldGroup:
    """A node group, or all groups of a kind, that must not be changed for now."""

    id: str
    """Of the group. One that ends in a slash stands for all groups whose ids begin with it: which they are is not
    known."""
    why: str = ""
    instances: tuple[str, ...] = ()
    """By provider id."""

    @property
    def is_kind(self) -> bool:
        return self.id.endswith("/")

    def covers(self, group: str) -> bool:
        """Is the group of this id held by it?"""
        return group == self.id or (self.is_kind and group.startswith(self.id))


@dataclass(frozen=True, slots=True)
class DaemonSet:
    """A DaemonSet, as far as new nodes are concerned: the pod that it would add to each."""

    namespace: str
    name: str
    uid: str
    pod: facts.Pod
    """The pod of its template with the tolerations that the DaemonSet controller adds, not bound to any node."""
    is_preempting_system_node_critical: bool = False
    """Priority class system-node-critical, and it may preempt: such a pod finds its place on any node that it fits."""
