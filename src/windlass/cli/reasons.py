"""Reasons: a judgement of all nodes, counted as the scheduler counts it, with what decided."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from windlass.cli import findings
from windlass.engine import dtypes, facts, predicates, shapes, snapshot, verdict
from windlass.engine.predicates import fit, node_affinity, taints
from windlass.engine.predicates.config import FilterConfig
from windlass.explain import amounts, clues
from windlass.selectors import Operator, Requirement

_EXAMPLES = 3


@dataclass(slots=True)
class Tally:
    """One reason while it is being counted."""

    rule: str
    count: int = 0
    rows: list[int] = field(default_factory=list)
    """The first few."""
    closest: tuple[int, verdict.Insufficient] | None = None
    """Where least is missing."""

    def add(self, row: int) -> None:
        self.count += 1
        if self.count <= _EXAMPLES:
            self.rows.append(row)


@dataclass(frozen=True, slots=True)
class Judged:
    """What is said of a shape; the fields are those of a `Finding`."""

    fits: tuple[str, ...]
    nodes: int
    message: str
    reasons: tuple[findings.Reason, ...]
    verdicts: tuple[findings.Verdict, ...]


def judge(found: snapshot.Snapshot, shape: shapes.Shape, config: FilterConfig, *, each: bool) -> Judged:
    """A shape against all nodes; node by node if `each`."""
    judgement = predicates.judge(found, shape, config)
    fits = tuple(found.nodes.names[row] for row in judgement.feasible.tolist())
    counted, total = _count(found, shape, judgement, config), len(judgement.rows)
    verdicts = tuple(_judge_each(found, shape, judgement)) if each else ()
    return Judged(fits, total, summarise(len(fits), total, counted), counted, verdicts)


def _count(
    found: snapshot.Snapshot, shape: shapes.Shape, judgement: verdict.Judgement, config: FilterConfig
) -> tuple[findings.Reason, ...]:
    """The reasons for which nodes refuse the shape, those of most nodes first."""
    if judgement.everywhere is not None:
        rule, total = judgement.everywhere.rule, len(judgement.rows)
        return tuple(findings.Reason(text, rule, total, (), None, "") for text in judgement.everywhere.texts)
    tallies: dict[str, Tally] = {}
    refused_by = judgement.refused_by[judgement.rows]
    for number in np.unique(refused_by[refused_by != verdict.FEASIBLE]).tolist():
        rows = judgement.rows[refused_by == number]
        if predicates.FILTERS[number - 1 : number] == (fit,):
            _count_short(found, fit.checked(found, shape, config), rows, tallies)
            continue
        refusals = predicates.explain_rows(found, shape, rows.tolist(), number, config)
        for row, refusal in zip(rows.tolist(), refusals, strict=True):
            for reason in refusal.reasons:
                tallies.setdefault(str(reason), Tally(refusal.rule)).add(row)
    counted = sorted(tallies.items(), key=lambda pair: (-pair[1].count, pair[0]))
    return tuple(_finish(found, shape, text, tally) for text, tally in counted)


def _count_short(
    found: snapshot.Snapshot, wanted: list[tuple[int, int]], rows: dtypes.Rows, tallies: dict[str, Tally]
) -> None:
    """Resources are counted with arrays: they are what most nodes are refused for."""
    for column, requested in wanted:
        free, capacity = found.nodes.free[column], found.nodes.allocatable[column]
        short = rows[free[rows] < requested]
        if len(short):
            row = int(short[free[short].argmax()])
            reason = verdict.Insufficient(
                "",
                resource=found.nodes.resources[column],
                requested=requested,
                used=int(capacity[row] - free[row]),
                capacity=int(capacity[row]),
            )
            tallies[str(reason)] = Tally(fit.NAME, len(short), short[:_EXAMPLES].tolist(), (row, reason))


def summarise(fitting: int, total: int, reasons: tuple[findings.Reason, ...]) -> str:
    """The scheduler's own message."""
    if not total:
        return "no nodes available to schedule pods"
    # Before any node was looked at there is nothing to count.
    parts = sorted(f"{reason.count} {reason.reason}" if reason.nodes else reason.reason for reason in reasons)
    return f"{fitting}/{total} nodes are available{': ' if parts else ''}{', '.join(parts)}."


def _judge_each(
    found: snapshot.Snapshot, shape: shapes.Shape, judgement: verdict.Judgement
) -> Iterator[findings.Verdict]:
    """Node by node."""
    for row in judgement.rows.tolist():
        refusal = judgement[row]
        if refusal is None:
            yield findings.Verdict(found.nodes.names[row], fits=True)
            continue
        told = sorted((str(reason), clues.find(found, shape, row, refusal.rule, reason)) for reason in refusal.reasons)
        texts, details = zip(*told, strict=True) if told else ((), ())
        yield findings.Verdict(
            found.nodes.names[row], False, refusal.rule, str(refusal.code), tuple(texts), tuple(details)
        )


# What decided


def _finish(found: snapshot.Snapshot, shape: shapes.Shape, text: str, tally: Tally) -> findings.Reason:
    names = tuple(found.nodes.names[row] for row in tally.rows)
    shortage, detail = None, _list(names, tally.count)
    if tally.closest is not None:
        row, short = tally.closest
        shortage = _shortage(found.nodes.names[row], short)
        detail = _describe_closest(shortage.node, short)
    elif tally.rule == node_affinity.NAME and (missing := _missing_label(found, shape.spec)):
        detail = missing
    else:
        detail = _describe(found, shape, text, tally) or detail
    return findings.Reason(text, tally.rule, tally.count, names, shortage, detail)


def _describe(found: snapshot.Snapshot, shape: shapes.Shape, text: str, tally: Tally) -> str:
    """What decided on the first node; taints, which many nodes share, with the nodes that have them."""
    told = list(dict.fromkeys(clues.find(found, shape, row, tally.rule, verdict.Reason(text)) for row in tally.rows))
    if tally.rule != taints.NAME or not all(told):
        return told[0]
    if len(told) > 1:
        return ", ".join(told)
    return f"{told[0]} ({_list(tuple(found.nodes.names[row] for row in tally.rows), tally.count)})"


def _free(reason: verdict.Insufficient) -> int:
    return reason.capacity - reason.used


def _shortage(node: str, reason: verdict.Insufficient) -> findings.Shortage:
    def spell(amount: int) -> str:
        return amounts.spell(reason.resource, amount)

    requested, free, capacity = spell(reason.requested), spell(_free(reason)), spell(reason.capacity)
    return findings.Shortage(reason.resource, requested, free, capacity, node)


def _describe_closest(node: str, reason: verdict.Insufficient) -> str:
    if reason.resource == facts.PODS:
        return f"{reason.used} of {reason.capacity} on {node}"
    needed = amounts.shorten(reason.resource, reason.requested, up=True)
    if reason.capacity == 0:
        return f"needs {needed}, these have none"
    return f"needs {needed}, most free {amounts.shorten(reason.resource, _free(reason))} on {node}"


def _missing_label(found: snapshot.Snapshot, spec: facts.PodSpec) -> str:
    """A label that the pod's nodeSelector asks for and that no node has."""
    for key, value in spec.node_selector:
        if not (found.nodes.requirement_mask(Requirement(key, Operator.IN, (value,))) & found.nodes.alive).any():
            return f"no node has {key}={value}"
    return ""


def _list(names: tuple[str, ...], count: int) -> str:
    more = f" and {count - len(names)} more" if count > len(names) else ""
    return ", ".join(names) + more
