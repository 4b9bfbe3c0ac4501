"""MachineDrainRules: which rule of Cluster API concerns a pod on the node of a Machine, and what follows from it.

    the pod's label cluster.x-k8s.io/drain     wins, if it says `skip` or `wait-completed`
    rules of the Machine's namespace           by name; the first that selects both the Machine and the pod
    neither                                    behavior Drain, order 0

A rule without `machines` selects all Machines of its namespace, one without `pods` all pods. Which rules select a
Machine is found where Machines are read; all else is found here, pod by pod.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from windlass.engine import facts, pod_traits

_NO_LABELS: Mapping[str, str] = {}


def select_for_machine(
    rules: Iterable[facts.MachineDrainRule],
    namespace: str,
    labels: Mapping[str, str],
    cluster_labels: Mapping[str, str] | None,
) -> tuple[tuple[str, ...], str]:
    """Keys of the rules that select a Machine, by name; and the key of a rule of which that cannot be told.

    `cluster_labels`: None where they are not known.
    """
    selecting: list[str] = []
    for rule in sorted(rules, key=lambda rule: rule.name):
        if rule.namespace != namespace:
            continue
        matching = [one for one in rule.machines if one.machine.matches(labels)]
        if not rule.machines or any(_selects_cluster(one, cluster_labels) for one in matching):
            selecting.append(rule.key)
        elif cluster_labels is None and matching:
            return (), rule.key
    return tuple(selecting), ""


def _selects_cluster(selector: facts.MachineSelector, labels: Mapping[str, str] | None) -> bool:
    if labels is None:
        return not selector.cluster.requirements
    return selector.cluster.matches(labels)


def select_pod(rule: facts.MachineDrainRule, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
    return not rule.pods or any(
        one.pod.matches(labels) and one.namespace.matches(namespace_labels) for one in rule.pods
    )


@dataclass(frozen=True, slots=True)
class NodeRules:
    """The rules that select the Machine of a node, in the order in which they are asked."""

    rules: tuple[facts.MachineDrainRule, ...] = ()
    unreadable: str = ""
    """Why they are not known; empty where they are."""


NONE = NodeRules()


class DrainRules:
    """The rules for each node. Nodes that have the same rules have the same `NodeRules`."""

    def __init__(
        self,
        nodes: Mapping[str, NodeRules] | None = None,
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

    def on_node(self, name: str) -> NodeRules:
        return self._nodes.get(name, NONE) if self._nodes else NONE

    def find(self, pod: facts.Pod) -> facts.MachineDrainRule | None:
        """The rule that concerns a pod. None where none does, or the pod's label says more."""
        rules = self.on_node(pod.node_name).rules
        if not rules or pod.drain_behavior is not facts.DrainBehavior.DRAIN:
            return None
        namespace_labels = self._namespaces.get(pod.namespace, _NO_LABELS)
        return next((rule for rule in rules if select_pod(rule, pod.labels, namespace_labels)), None)

    def find_behavior(self, pod: facts.Pod) -> facts.DrainBehavior:
        """What is done with a pod on its node. It is waited for where that is not known.

        Neither labels nor rules are about pods of DaemonSets.
        """
        if not self._is_respected or pod_traits.is_daemonset(pod):
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
        if pod_traits.is_daemonset(pod):
            return max((0, *(rule.order for rule in self.on_node(pod.node_name).rules)))
        rule = self.find(pod)
        return 0 if rule is None else rule.order


NO_RULES = DrainRules()


def read(
    rules: Sequence[facts.MachineDrainRule],
    groups: Iterable[facts.NodeGroup],
    nodes: Iterable[tuple[int, facts.Node]],
    namespaces: Mapping[str, Mapping[str, str]],
) -> DrainRules:
    """The rules for nodes, given by row, whose instances name any, or of whose instances that is not known."""
    by_key = {rule.key: rule for rule in rules}
    shared: dict[tuple[tuple[str, ...], str], NodeRules] = {}
    by_instance: dict[str, NodeRules] = {}
    for group in groups:
        for one in group.instances:
            if one.machine_drain_rules or one.unreadable_drain_rules:
                named = (one.machine_drain_rules, one.unreadable_drain_rules)
                if named not in shared:
                    shared[named] = NodeRules(tuple(by_key[key] for key in named[0] if key in by_key), named[1])
                by_instance[one.provider_id] = shared[named]
    if not by_instance:
        return DrainRules(is_respected=True)
    ruled = [(row, node.name, by_instance[node.provider_id]) for row, node in nodes if node.provider_id in by_instance]
    return DrainRules(
        {name: known for _, name, known in ruled}, {row: name for row, name, _ in ruled}, namespaces, is_respected=True
    )
