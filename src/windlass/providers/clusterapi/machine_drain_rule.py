"""MachineDrainRules, and which of them select a Machine.

A rule that cannot be read is not gone. While a rule of a namespace cannot be read, or rules are served and were never
listed, or a rule selects by the labels of an unknown Cluster, it is unknown which rules select a Machine.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from windlass import selectors
from windlass.engine.drainability import context
from windlass.engine.model import facts, node_groups
from windlass.kube import fields
from windlass.kube import selectors as kube_selectors
from windlass.kube.models import clusterapi, meta
from windlass.providers.clusterapi.informers import ResourceInformer
from windlass.providers.clusterapi.machines import Machine

SelectingRules = tuple[tuple[str, ...], str]
"""(keys of the rules that select a Machine, why they are unknown)"""

NO_SELECTING_RULES: SelectingRules = ((), "")


class LabeledCluster(msgspec.Struct, frozen=True, gc=False):
    """The labels of a Cluster."""

    key: str
    labels: tuple[tuple[str, str], ...] = ()


def narrow_cluster(cluster: meta.Object) -> LabeledCluster:
    labels = cluster.meta.labels or {}
    return LabeledCluster(cluster.meta.key, tuple((sys.intern(key), value) for key, value in sorted(labels.items())))


def read_drain_rule(machine_drain_rule: clusterapi.MachineDrainRule) -> node_groups.MachineDrainRule:
    """Parse a MachineDrainRule. InvalidObject if it is malformed."""
    spec = machine_drain_rule.spec or clusterapi.MachineDrainRuleSpec()
    try:
        behavior = _read_behavior(spec.drain)
        return node_groups.MachineDrainRule(
            machine_drain_rule.meta.namespace or "",
            machine_drain_rule.meta.name or "",
            behavior,
            (spec.drain.order or 0) if spec.drain and behavior is facts.DrainBehavior.DRAIN else 0,
            tuple(_read_machines(spec)),
            tuple(_read_pods(spec)),
        )
    except fields.InvalidField as error:
        raise error.of("MachineDrainRule", machine_drain_rule.meta.key) from error


def _read_behavior(drain: clusterapi.MachineDrainRuleDrain | None) -> facts.DrainBehavior:
    behavior = drain.behavior if drain else None
    if behavior not in list(facts.DrainBehavior):
        raise fields.InvalidField("spec.drain.behavior", behavior, f"one of {', '.join(facts.DrainBehavior)}")
    return facts.DrainBehavior(behavior)


def _read_machines(spec: clusterapi.MachineDrainRuleSpec) -> Iterator[node_groups.MachineSelector]:
    for i, machine_drain_rule_machines in enumerate(spec.machines or ()):
        at = f"spec.machines[{i}]"
        yield node_groups.MachineSelector(
            _read_selector(machine_drain_rule_machines.selector, f"{at}.selector"),
            _read_selector(machine_drain_rule_machines.cluster_selector, f"{at}.clusterSelector"),
        )


def _read_pods(spec: clusterapi.MachineDrainRuleSpec) -> Iterator[node_groups.DrainedPodSelector]:
    for i, machine_drain_rule_pods in enumerate(spec.pods or ()):
        at = f"spec.pods[{i}]"
        yield node_groups.DrainedPodSelector(
            _read_selector(machine_drain_rule_pods.selector, f"{at}.selector"),
            _read_selector(machine_drain_rule_pods.namespace_selector, f"{at}.namespaceSelector"),
        )


def _read_selector(label_selector: meta.LabelSelector | None, at: str) -> selectors.LabelSelector:
    """A selector; here a missing one selects everything."""
    return kube_selectors.parse_label_selector(label_selector, at) or selectors.EVERYTHING


@dataclass(frozen=True, slots=True)
class MachineDrainRules:
    """All objects that decide which rules select a Machine."""

    rules: tuple[node_groups.MachineDrainRule, ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Namespaces with a malformed rule, and its error."""
    unread: str = ""
    """Why rules that the server serves were never listed; empty if they were."""
    clusters: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """Labels of each Cluster that could be read."""
    _known: dict[tuple[str, tuple[str, ...], str], SelectingRules] = field(default_factory=dict, compare=False)

    def select(self, machine: Machine) -> SelectingRules:
        if not self.rules and not self.unreadable and not self.unread:
            return NO_SELECTING_RULES
        about = (machine.namespace, machine.labels, machine.cluster)
        if about not in self._known:
            self._known[about] = self._select(machine)
        return self._known[about]

    def _select(self, machine: Machine) -> SelectingRules:
        reason = self.unread or self.unreadable.get(machine.namespace, "")
        if reason:
            return (), reason
        cluster = f"{machine.namespace}/{machine.cluster}"
        labels = self.clusters.get(cluster)
        flat = machine.labels
        keys, unsure = context.select_for_machine(
            self.rules,
            machine.namespace,
            dict(zip(flat[::2], flat[1::2], strict=True)),
            None if labels is None else dict(labels),
        )
        return keys, f"{unsure} has a clusterSelector, and Cluster {cluster} cannot be read" if unsure else ""


NO_DRAIN_RULES = MachineDrainRules()


def observe_drain_rules(
    followed: ResourceInformer[node_groups.MachineDrainRule] | None, clusters: ResourceInformer[LabeledCluster] | None
) -> MachineDrainRules:
    """The current rules."""
    if followed is None:
        return NO_DRAIN_RULES
    if not followed.synced:
        unread = "" if followed.is_refused else f"MachineDrainRules: {followed.last_error or 'not read yet'}"
        return MachineDrainRules(unread=unread)
    malformed = {invalid.name.rpartition("/")[0]: str(invalid) for invalid in followed.malformed}
    unsure = {invalid_object.name for invalid_object in clusters.malformed} if clusters is not None else set()
    known = {
        labeled_cluster.key: labeled_cluster.labels
        for labeled_cluster in clusters or ()
        if labeled_cluster.key not in unsure
    }
    return MachineDrainRules(tuple(sorted(followed, key=lambda rule: rule.key)), malformed, clusters=known)
