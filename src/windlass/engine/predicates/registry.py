"""kube-scheduler's filter plugins in the scheduler's order, and the masks that they give together.

A plugin is a module named after it: NAME; mask(snapshot, shape, config) -> bool (n_nodes), True where the pod passes,
None if the plugin does not apply; explain(snapshot, shape, row, config) -> the refusal of one row; and, in PRE_FILTERS,
pre_filter(snapshot, shape, config) -> a refusal before any node is looked at. Masks are shared: never write into one.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from windlass.engine.model import arrays, facts
from windlass.engine.model.scheduling_reasons import FEASIBLE, Diagnosis, Reason, Refusal, StatusCode
from windlass.engine.predicates import (
    dynamic_resources,
    inter_pod_affinity,
    node_affinity,
    node_declared_features,
    node_name,
    node_ports,
    node_resources_fit,
    node_unschedulable,
    node_volume_limits,
    pod_topology_spread,
    taint_toleration,
    volume_binding,
    volume_restrictions,
    volume_zone,
)

if TYPE_CHECKING:
    from windlass.engine.model.settings import FilterConfig
    from windlass.engine.snapshot.cluster_snapshot import Snapshot


class Filter(Protocol):
    """A filter module."""

    NAME: str

    def mask(self, snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> arrays.Mask | None: ...

    def explain(self, snapshot: "Snapshot", shape: facts.PodShape, row: int, config: "FilterConfig") -> Refusal: ...


class PreFilter(Protocol):
    """A filter module that can refuse a pod on all nodes at once."""

    NAME: str

    def pre_filter(self, snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> Refusal | None: ...


PRE_FILTERS: tuple[PreFilter, ...] = (
    node_affinity,  # terms that name contradicting nodes
    volume_restrictions,  # a claim that is missing
    volume_binding,  # claims that are lost, going, another pod's or not bound in time
    volume_zone,  # a claim whose volume or class is missing
    pod_topology_spread,  # a hard constraint whose selector cannot be parsed
    inter_pod_affinity,  # a term, preferred ones included, that cannot be parsed
    dynamic_resources,  # a claim on devices that is missing, going, another pod's, or of a class that there is not
)

FILTERS: tuple[Filter, ...] = (
    node_unschedulable,
    node_name,
    taint_toleration,
    node_affinity,
    node_ports,
    node_resources_fit,
    volume_restrictions,
    node_volume_limits,
    volume_binding,
    volume_zone,
    pod_topology_spread,
    inter_pod_affinity,
    dynamic_resources,
    node_declared_features,
)

STATIC_FILTERS: tuple[Filter, ...] = (node_unschedulable, node_name, node_affinity, node_declared_features)
"""Filters on a node's own facts: their masks are valid until a node changes.

TaintToleration is one of them but for nodes that a what-if empties; `static_mask` and `feasible` ask it in two parts.
"""

DYNAMIC_FILTERS: tuple[Filter, ...] = tuple(
    rule for rule in FILTERS if rule not in STATIC_FILTERS and rule is not taint_toleration
)
"""Filters that depend on other pods, volumes or devices."""


def run_pre_filters(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> Refusal | None:
    """The first refusal that needs no node, or None."""
    for rule in PRE_FILTERS:
        if config.runs_prefilter(rule.NAME):
            refusal = rule.pre_filter(snapshot, shape, config)
            if refusal is not None:
                return refusal
            if rule is node_affinity:  # last plugin with a PreFilterResult; an empty one ends the cycle
                narrowed = find_pre_filter_result(snapshot, shape, config)
                if narrowed is not None and not narrowed.names:
                    return narrowed.nowhere
    return None


def static_mask(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> arrays.Mask:
    """Bool (n_nodes): what the nodes' own facts allow. Kept until a node changes; never write into it."""
    spec = shape.spec

    def compute(rows: slice) -> arrays.Mask:
        mask = np.ones(snapshot.nodes.count, bool)
        if taint_toleration.NAME not in config.disabled:
            mask &= taint_toleration.tolerated_mask(snapshot, spec)
        for rule in STATIC_FILTERS:
            if rule.NAME not in config.disabled:
                allowed = rule.mask(snapshot, shape, config)
                if allowed is not None:
                    mask &= allowed
        if config.prefilter_only and (narrowed := find_pre_filter_result(snapshot, shape, config)) is not None:
            mask &= ~mask_outside(snapshot, narrowed)  # elsewhere the masks of the narrowing filters imply it
        return mask[rows]

    def of_spec(rows: slice) -> arrays.Mask:
        key = ("static", config, spec.node_name, spec.node_selector, spec.node_affinity, spec.tolerations,
               spec.required_features)  # fmt: skip
        return snapshot.nodes.cached(key, compute)[rows]

    # Cached by shape id first: hashing an int is much cheaper than hashing an affinity.
    return snapshot.nodes.cached(("static", config, shape.id), of_spec)


def find_feasible(
    snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig", but: tuple[str, ...] = ()
) -> arrays.Mask:
    """Bool (n_nodes): the nodes feasible for a pod of this shape, as in kube-scheduler. The caller may modify it.

    `but` names filters that are not asked: who keeps their answers current asks them alone.
    """
    if run_pre_filters(snapshot, shape, config) is not None:
        return np.zeros(snapshot.nodes.count, bool)
    mask = static_mask(snapshot, shape, config) & snapshot.nodes.alive
    if taint_toleration.NAME not in config.disabled:
        mask &= taint_toleration.not_deleting_mask(snapshot, shape.spec)
    for rule in DYNAMIC_FILTERS:
        if rule.NAME not in config.disabled and rule.NAME not in but:
            allowed = rule.mask(snapshot, shape, config)
            if allowed is not None:
                mask &= allowed
    return mask


def diagnose(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> Diagnosis:
    """A shape against every node: feasible, or which filter refuses first."""
    refused_by = np.zeros(snapshot.nodes.count, np.uint8)
    everywhere = run_pre_filters(snapshot, shape, config)
    if everywhere is None:
        for number, rule in enumerate(FILTERS, start=1):
            if rule.NAME not in config.disabled:
                allowed = rule.mask(snapshot, shape, config)
                if allowed is not None:
                    refused_by[~allowed & (refused_by == FEASIBLE)] = number
        narrowed = find_pre_filter_result(snapshot, shape, config)
        if narrowed is not None:
            refused_by[mask_outside(snapshot, narrowed)] = len(FILTERS) + 1

    def explain(row: int, number: int) -> Refusal:
        return explain_refusals(snapshot, shape, [row], number, config)[0]

    return Diagnosis(np.flatnonzero(snapshot.nodes.alive), refused_by, everywhere, explain)


def explain_refusals(
    snapshot: "Snapshot", shape: facts.PodShape, rows: list[int], number: int, config: "FilterConfig"
) -> list[Refusal]:
    """Why the filter of this number in `Judgement.refused_by` refuses these rows; counted once where it counts."""
    if number > len(FILTERS):
        narrowed = find_pre_filter_result(snapshot, shape, config)
        assert narrowed is not None, "asked to explain a search that nothing narrows"
        return [narrowed.outside] * len(rows)
    rule = FILTERS[number - 1]
    if rule.NAME == pod_topology_spread.NAME:
        return pod_topology_spread.explain_rows(snapshot, shape, rows, config)
    if rule.NAME == inter_pod_affinity.NAME:
        return inter_pod_affinity.explain_rows(snapshot, shape, rows, config)
    return [rule.explain(snapshot, shape, row, config) for row in rows]


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """The names that are left, and the filters that narrowed the search to them."""

    names: frozenset[str]
    rules: tuple[str, ...]

    @property
    def outside(self) -> Refusal:
        """The refusal for nodes outside the pre-filter result."""
        return self._refuse("")

    @property
    def nowhere(self) -> Refusal:
        """The refusal for all nodes if the pre-filter result is empty."""
        return self._refuse(" simultaneously")

    def _refuse(self, how: str) -> Refusal:
        message = f"node(s) didn't satisfy plugin(s) [{' '.join(self.rules)}]{how}"
        return Refusal(",".join(self.rules), StatusCode.UNRESOLVABLE, (Reason(message),))


def find_pre_filter_result(
    snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig"
) -> PreFilterResult | None:
    """The node names to which NodeName and NodeAffinity restrict the search; None without a restriction."""
    if not shape.spec.node_name and shape.spec.node_affinity is None:
        return None
    results = {
        node_name.NAME: node_name.find_named_node(snapshot, shape),
        node_affinity.NAME: node_affinity.find_named_nodes(snapshot, shape),
    }
    by_rule = {name: names for name, names in results.items() if names is not None and config.runs_prefilter(name)}
    if not by_rule:
        return None
    return PreFilterResult(frozenset(set.intersection(*by_rule.values())), tuple(sorted(by_rule)))


def mask_outside(snapshot: "Snapshot", narrowed: PreFilterResult) -> arrays.Mask:
    """Bool (n_nodes): True at nodes to which the search is not narrowed."""
    return ~snapshot.nodes.name_mask(tuple(narrowed.names))
