"""Drain context: everything a drain rule may read: options, controllers, budgets, MachineDrainRules.

Which MachineDrainRule of Cluster API applies to a pod on a Machine's node:

    the pod's label cluster.x-k8s.io/drain     wins if its value is `skip` or `wait-completed`
    rules of the Machine's namespace           by name; the first that selects both the Machine and the pod
    neither                                    behavior Drain, order 0

A rule without `machines` selects all Machines of its namespace, one without `pods` all pods.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from windlass.engine.drainability import pdb
from windlass.engine.model import drainability, facts, node_groups, well_known
from windlass.engine.model.settings import Settings

if TYPE_CHECKING:
    from windlass.engine.observation import Observation

_NO_LABELS: Mapping[str, str] = {}


def select_for_machine(
    rules: Iterable[node_groups.MachineDrainRule],
    namespace: str,
    labels: Mapping[str, str],
    cluster_labels: Mapping[str, str] | None,
) -> tuple[tuple[str, ...], str]:
    """Keys of the rules that select a Machine, by name; and the key of a rule that cannot be evaluated, or "".

    `cluster_labels`: None where they are not known.
    """
    selecting: list[str] = []
    for rule in sorted(rules, key=lambda rule: rule.name):
        if rule.namespace != namespace:
            continue
        matching = [machine_selector for machine_selector in rule.machines if machine_selector.machine.matches(labels)]
        if not rule.machines or any(_selects_cluster(selector, cluster_labels) for selector in matching):
            selecting.append(rule.key)
        elif cluster_labels is None and matching:
            return (), rule.key
    return tuple(selecting), ""


def _selects_cluster(selector: node_groups.MachineSelector, labels: Mapping[str, str] | None) -> bool:
    if labels is None:
        return not selector.cluster.requirements
    return selector.cluster.matches(labels)


def selects_pod(
    rule: node_groups.MachineDrainRule, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
) -> bool:
    return not rule.pods or any(
        drained_pod_selector.pod.matches(labels) and drained_pod_selector.namespace.matches(namespace_labels)
        for drained_pod_selector in rule.pods
    )


@dataclass(frozen=True, slots=True)
class NodeDrainRules:
    """The rules that select the Machine of a node, in order of evaluation."""

    rules: tuple[node_groups.MachineDrainRule, ...] = ()
    unreadable: str = ""
    """Why the rules are unknown; empty if they are known."""


NO_NODE_RULES = NodeDrainRules()


class DrainRules:
    """The rules for each node. Nodes with the same rules share one `NodeDrainRules`."""

    def __init__(
        self,
        nodes: Mapping[str, NodeDrainRules] | None = None,
        names: Mapping[int, str] | None = None,
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
        *,
        is_respected: bool = False,
    ) -> None:
        """`nodes`: by name, those that have any. `names`: their names by row. `namespaces`: labels by name.

        `is_respected`: the labels of pods hold as well.
        """
        self._nodes = nodes or {}
        self.names = names or {}
        self._namespaces = namespaces or {}
        self._is_respected = is_respected

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def on_node(self, name: str) -> NodeDrainRules:
        return self._nodes.get(name, NO_NODE_RULES) if self._nodes else NO_NODE_RULES

    def find(self, pod: facts.Pod) -> node_groups.MachineDrainRule | None:
        """The first rule that selects the pod. None if none does, or the pod's label takes precedence."""
        rules = self.on_node(pod.node_name).rules
        if not rules or pod.drain_behavior is not facts.DrainBehavior.DRAIN:
            return None
        namespace_labels = self._namespaces.get(pod.namespace, _NO_LABELS)
        return next((rule for rule in rules if selects_pod(rule, pod.labels, namespace_labels)), None)

    def find_behavior(self, pod: facts.Pod) -> facts.DrainBehavior:
        """The drain behavior of a pod on its node; WaitCompleted if the node's rules are unknown.

        Labels and rules do not apply to DaemonSet pods.
        """
        if not self._is_respected or well_known.is_daemonset(pod):
            return facts.DrainBehavior.DRAIN
        if pod.drain_behavior is not facts.DrainBehavior.DRAIN:
            return pod.drain_behavior
        if self.on_node(pod.node_name).unreadable:
            return facts.DrainBehavior.WAIT_COMPLETED
        rule = self.find(pod)
        return facts.DrainBehavior.DRAIN if rule is None else rule.behavior

    def find_order(self, pod: facts.Pod) -> int:
        """Pods of a lower order are gone before those of a higher one are evicted.

        A DaemonSet's pod is evicted with the last of the others, where it is at all.
        """
        if not self._nodes:
            return 0
        if well_known.is_daemonset(pod):
            return max((0, *(rule.order for rule in self.on_node(pod.node_name).rules)))
        rule = self.find(pod)
        return 0 if rule is None else rule.order


NO_DRAIN_RULES = DrainRules()


def make_drain_rules(
    rules: Sequence[node_groups.MachineDrainRule],
    groups: Iterable[node_groups.NodeGroup],
    nodes: Iterable[tuple[int, facts.Node]],
    namespaces: Mapping[str, Mapping[str, str]],
) -> DrainRules:
    """The rules of the nodes whose instances have rules or unreadable rules; `nodes` are (row, node)."""
    by_key = {rule.key: rule for rule in rules}
    shared: dict[tuple[tuple[str, ...], str], NodeDrainRules] = {}
    by_instance: dict[str, NodeDrainRules] = {}
    for group in groups:
        for instance in group.instances:
            if instance.machine_drain_rules or instance.unreadable_drain_rules:
                named = (instance.machine_drain_rules, instance.unreadable_drain_rules)
                if named not in shared:
                    shared[named] = NodeDrainRules(tuple(by_key[key] for key in named[0] if key in by_key), named[1])
                by_instance[instance.provider_id] = shared[named]
    if not by_instance:
        return DrainRules(is_respected=True)
    ruled = [(row, node.name, by_instance[node.provider_id]) for row, node in nodes if node.provider_id in by_instance]
    return DrainRules(
        {name: known for _, name, known in ruled}, {row: name for row, name, _ in ruled}, namespaces, is_respected=True
    )


@dataclass(frozen=True, slots=True)
class NodeDeleteOptions:
    """Which pods may be moved, by flags; the defaults are Cluster Autoscaler's."""

    skip_system_pods: bool = True
    """Keep nodes with pods of kube-system that no budget covers (--skip-nodes-with-system-pods)."""
    skip_local_storage: bool = True
    """Keep nodes with pods that store on the node's disk (--skip-nodes-with-local-storage)."""
    skip_custom_controllers: bool = True
    """Keep nodes with pods whose controller is not one of Kubernetes' own, or has too few replicas
    (--skip-nodes-with-custom-controller-pods)."""
    min_replicas: int = 0
    """Fewer than this many replicas wanted, and a pod stays (--min-replica-count)."""
    system_pod_timeout_s: float = 3600.0
    """Age at which a pod of kube-system may go without a budget (--blocking-system-pod-distruption-timeout)."""
    respect_do_not_disrupt: bool = False
    """Karpenter's annotation keeps a pod, and with it the node (--respect-do-not-disrupt)."""
    respect_machine_drain_rules: bool = False
    """Cluster API's label lets a pod end with its node, or finish (--respect-machine-drain-rules)."""


@dataclass(frozen=True, slots=True)
class DrainContext:
    """The inputs of drain rules. `budgets` is only read."""

    now_s: float
    options: NodeDeleteOptions = field(default_factory=NodeDeleteOptions)
    controllers: Mapping[drainability.ControllerKey, facts.Controller] | None = None
    """All existing controllers, by key. None if controllers are not listed; no pod blocks for a missing one then."""
    budgets: pdb.RemainingPdbTracker = field(default_factory=pdb.RemainingPdbTracker)
    drain_rules: DrainRules = NO_DRAIN_RULES


def read_delete_options(settings: Settings) -> NodeDeleteOptions:
    """The delete options from flags."""
    drain = settings.drain
    return NodeDeleteOptions(
        drain.skip_nodes_with_system_pods,
        drain.skip_nodes_with_local_storage,
        drain.skip_nodes_with_custom_controller_pods,
        drain.min_replica_count,
        drain.blocking_system_pod_distruption_timeout_s,
        settings.deviations.respect_do_not_disrupt,
        settings.deviations.respect_machine_drain_rules,
    )


def make_drain_context(observation: "Observation", settings: Settings, now_s: float) -> DrainContext:
    """The drain context of a loop."""
    deviations = settings.deviations
    budgets = pdb.RemainingPdbTracker(
        observation.budgets, deviations.foresee_refused_evictions, deviations.respect_unhealthy_pod_eviction_policy
    )
    rules = read_machine_drain_rules(observation, settings)
    return DrainContext(now_s, read_delete_options(settings), observation.controllers, budgets, rules)


def read_machine_drain_rules(observation: "Observation", settings: Settings) -> DrainRules:
    """Cluster API's MachineDrainRules of the existing nodes, if they are respected."""
    if not settings.deviations.respect_machine_drain_rules:
        return NO_DRAIN_RULES
    table, namespaces = observation.snapshot.nodes, observation.snapshot.topology_counts.namespaces
    alive = table.alive.tolist()
    nodes = ((row, node) for row, node in enumerate(table.facts) if alive[row])
    return make_drain_rules(observation.machine_drain_rules, observation.groups, nodes, namespaces)
