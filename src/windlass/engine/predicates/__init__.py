"""kube-scheduler's filters, one per file, in the scheduler's order.

Lives here: for each filter its name, a mask over all nodes for one shape, and the reasons for one node when someone
asks. Never here: one filter knowing another, a loop over nodes where an array would do, text made before it is read.

Imitate `taints.py`. A filter is a module with

    NAME      kube-scheduler's name of the plugin
    mask      (snapshot, shape, config) -> bool (n_nodes), True where it lets the shape pass; None: it has no say
    explain   (snapshot, shape, row, config) -> the refusal, for a row where the mask is False
    refuse    (snapshot, shape, config) -> a refusal before any node is looked at, or None   (PREFILTERS only)

Masks may be shared: callers never write into one.
"""

from typing import Protocol

import numpy as np

from windlass.engine import dtypes, shapes
from windlass.engine.predicates import (
    declared_features,
    dynamic_resources,
    fit,
    inclusion,
    interpod,
    narrowing,
    node_affinity,
    node_name,
    ports,
    spread,
    taints,
    unschedulable,
    volume_binding,
    volume_limits,
    volume_restrictions,
    volume_zone,
)
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot
from windlass.engine.verdict import FEASIBLE, Judgement, Refusal


class Filter(Protocol):
    """A filter module."""

    NAME: str

    def mask(self, snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> dtypes.Mask | None: ...

    def explain(self, snapshot: Snapshot, shape: shapes.Shape, row: int, config: FilterConfig) -> Refusal: ...


class PreFilter(Protocol):
    """A filter module that can refuse a pod on all nodes at once."""

    NAME: str

    def refuse(self, snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> Refusal | None: ...


PREFILTERS: tuple[PreFilter, ...] = (
    node_affinity,  # terms that name contradicting nodes
    volume_restrictions,  # a claim that is missing
    volume_binding,  # claims that are lost, going, another pod's or not bound in time
    volume_zone,  # a claim whose volume or class is missing
    spread,  # a hard constraint whose selector cannot be parsed
    interpod,  # a term, preferred ones included, that cannot be parsed
    dynamic_resources,  # a claim on devices that is missing, going, another pod's, or of a class that there is not
)

FILTERS: tuple[Filter, ...] = (
    unschedulable,
    node_name,
    taints,
    node_affinity,
    ports,
    fit,
    volume_restrictions,
    volume_limits,
    volume_binding,
    volume_zone,
    spread,
    interpod,
    dynamic_resources,
    declared_features,
)

STATIC: tuple[Filter, ...] = (unschedulable, node_name, node_affinity, declared_features)
"""Filters that look at the node's own facts only: what they say of a shape holds until a node changes.

TaintToleration is one of them but for nodes that a what-if empties; `static_mask` and `feasible` ask it in two parts.
"""

DYNAMIC: tuple[Filter, ...] = tuple(rule for rule in FILTERS if rule not in STATIC and rule is not taints)
"""Filters that look at what else is there."""


def refuse(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> Refusal | None:
    """The first refusal that needs no node, or None."""
    for rule in PREFILTERS:
        if rule.NAME not in config.disabled:
            refusal = rule.refuse(snapshot, shape, config)
            if refusal is not None:
                return refusal
            if rule is node_affinity:  # the last that narrows the search; what comes later is not asked if that fails
                narrowed = narrowing.find(snapshot, shape, config)
                if narrowed is not None and not narrowed.names:
                    return narrowed.nowhere
    return None


def static_mask(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> dtypes.Mask:
    """Bool (n_nodes): what the nodes' own facts allow. Kept until a node changes; never write into it."""
    spec = shape.spec

    def compute(rows: slice) -> dtypes.Mask:
        mask = np.ones(snapshot.nodes.count, bool)
        if taints.NAME not in config.disabled:
            mask &= inclusion.tolerated(snapshot, spec)
        for rule in STATIC:
            if rule.NAME not in config.disabled:
                allowed = rule.mask(snapshot, shape, config)
                if allowed is not None:
                    mask &= allowed
        return mask[rows]

    def of_spec(rows: slice) -> dtypes.Mask:
        key = ("static", config, spec.node_name, spec.node_selector, spec.node_affinity, spec.tolerations,
               spec.required_features)  # fmt: skip
        return snapshot.nodes.kept(key, compute)[rows]

    # By shape first: hashing a number is much cheaper than hashing an affinity.
    return snapshot.nodes.kept(("static", config, shape.id), of_spec)


def feasible(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig, but: tuple[str, ...] = ()) -> dtypes.Mask:
    """Bool (n_nodes): may a pod of this shape run there, as kube-scheduler would say? The caller's to write into.

    `but` names filters that are not asked: who keeps their answers current asks them alone.
    """
    if refuse(snapshot, shape, config) is not None:
        return np.zeros(snapshot.nodes.count, bool)
    mask = static_mask(snapshot, shape, config) & snapshot.nodes.alive
    if taints.NAME not in config.disabled:
        mask &= inclusion.staying(snapshot, shape.spec)
    for rule in DYNAMIC:
        if rule.NAME not in config.disabled and rule.NAME not in but:
            allowed = rule.mask(snapshot, shape, config)
            if allowed is not None:
                mask &= allowed
    return mask


def judge(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> Judgement:
    """A shape against every node: feasible, or which filter refuses first."""
    refused_by = np.zeros(snapshot.nodes.count, np.uint8)
    everywhere = refuse(snapshot, shape, config)
    if everywhere is None:
        for number, rule in enumerate(FILTERS, start=1):
            if rule.NAME not in config.disabled:
                allowed = rule.mask(snapshot, shape, config)
                if allowed is not None:
                    refused_by[~allowed & (refused_by == FEASIBLE)] = number
        narrowed = narrowing.find(snapshot, shape, config)
        if narrowed is not None:
            refused_by[narrowing.outside(snapshot, narrowed)] = len(FILTERS) + 1

    def explain(row: int, number: int) -> Refusal:
        return explain_rows(snapshot, shape, [row], number, config)[0]

    return Judgement(np.flatnonzero(snapshot.nodes.alive), refused_by, everywhere, explain)


def explain_rows(
    snapshot: Snapshot, shape: shapes.Shape, rows: list[int], number: int, config: FilterConfig
) -> list[Refusal]:
    """Why the filter of this number in `Judgement.refused_by` refuses these rows; counted once where it counts."""
    if number > len(FILTERS):
        narrowed = narrowing.find(snapshot, shape, config)
        assert narrowed is not None, "asked to explain a search that nothing narrows"
        return [narrowed.outside] * len(rows)
    rule = FILTERS[number - 1]
    if rule.NAME == spread.NAME:
        return spread.explain_rows(snapshot, shape, rows, config)
    if rule.NAME == interpod.NAME:
        return interpod.explain_rows(snapshot, shape, rows, config)
    return [rule.explain(snapshot, shape, row, config) for row in rows]
