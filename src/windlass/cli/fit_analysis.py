"""Analysis of `windlass fit`: every pending pod against all nodes, with rejections counted as in kube-scheduler.

Scheduling gates are read from the manifests, because the engine's facts do not carry their names.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np

from windlass import errors, formatting
from windlass.autoscaler import scheduler_config
from windlass.autoscaler.readers import cluster_dump
from windlass.cli import fit_report
from windlass.engine.model import arrays, facts, scheduling_reasons
from windlass.engine.model.settings import FilterConfig
from windlass.engine.predicates import node_affinity, node_resources_fit, registry, taint_toleration
from windlass.engine.snapshot import cluster_snapshot
from windlass.explain import obstacles
from windlass.kube import scheme
from windlass.kube.models import meta
from windlass.selectors import Operator, Requirement

_GATES_FIELD = b'"schedulingGates"'
"""Searched for in the raw text first: few pods have gates, so most objects need no parsing."""


class SchedulingGate(meta.Model, frozen=True):
    """A scheduling gate."""

    name: str = ""


class GatedPodSpec(meta.Model, frozen=True):
    """The part of a pod's spec that is read here."""

    scheduling_gates: list[SchedulingGate] | None = None


class GatedPod(meta.Object, frozen=True):
    """The part of a pod that is read here."""

    spec: GatedPodSpec | None = None


_POD_DECODER = msgspec.json.Decoder(GatedPod)


def find_scheduling_gates(objects: Iterable[scheme.Raw]) -> dict[str, tuple[str, ...]]:
    """Notes on gated pods, by `namespace/name`. Unreadable objects have none."""
    notes: dict[str, tuple[str, ...]] = {}
    for raw in objects:
        try:
            _read_gates(scheme.as_json(raw), notes)
        except (errors.InvalidObject, msgspec.MsgspecError):
            continue
    return notes


def _read_gates(raw: scheme.Json, notes: dict[str, tuple[str, ...]]) -> None:
    text = raw if isinstance(raw, bytes) else raw.encode() if isinstance(raw, str) else bytes(raw)
    if _GATES_FIELD not in text:
        return
    header = scheme.read_header(text)
    if header.is_list:
        notes.update(find_scheduling_gates(header.items or ()))
        return
    pod = _POD_DECODER.decode(text)
    if pod.spec is not None and (found := _describe_gates(pod.spec)):
        notes[pod.meta.key] = found


def _describe_gates(spec: GatedPodSpec) -> tuple[str, ...]:
    if not spec.scheduling_gates:
        return ()
    names = ", ".join(gate.name for gate in spec.scheduling_gates)
    return (f"not scheduled while it has the gate {names}",)


_EXAMPLES = 3


@dataclass(slots=True)
class ReasonTally:
    """Count of nodes for one reason."""

    rule: str
    count: int = 0
    rows: list[int] = field(default_factory=list)
    """The first few nodes."""
    closest: tuple[int, scheduling_reasons.Insufficient] | None = None
    """The node with the smallest shortage."""

    def add(self, row: int) -> None:
        self.count += 1
        if self.count <= _EXAMPLES:
            self.rows.append(row)


@dataclass(frozen=True, slots=True)
class ShapeResult:
    """The result for one pod shape; the fields are those of a `PodFinding`."""

    fits: tuple[str, ...]
    nodes: int
    message: str
    reasons: tuple[fit_report.FitReason, ...]
    verdicts: tuple[fit_report.NodeVerdict, ...]


def analyze_shape(
    found: cluster_snapshot.Snapshot, shape: facts.PodShape, config: FilterConfig, *, each: bool
) -> ShapeResult:
    """Check a shape against all nodes; with verdicts per node if `each`."""
    judgement = registry.diagnose(found, shape, config)
    fits = tuple(found.nodes.names[row] for row in judgement.feasible.tolist())
    counted, total = _count_reasons(found, shape, judgement, config), len(judgement.rows)
    verdicts = tuple(_node_verdicts(found, shape, judgement)) if each else ()
    return ShapeResult(fits, total, format_fit_error(len(fits), total, counted), counted, verdicts)


def _count_reasons(
    found: cluster_snapshot.Snapshot,
    shape: facts.PodShape,
    judgement: scheduling_reasons.Diagnosis,
    config: FilterConfig,
) -> tuple[fit_report.FitReason, ...]:
    """The reasons for rejecting the shape, those of most nodes first."""
    if judgement.everywhere is not None:
        rule, total = judgement.everywhere.rule, len(judgement.rows)
        return tuple(fit_report.FitReason(text, rule, total, (), None, "") for text in judgement.everywhere.texts)
    tallies: dict[str, ReasonTally] = {}
    refused_by = judgement.refused_by[judgement.rows]
    for number in np.unique(refused_by[refused_by != scheduling_reasons.FEASIBLE]).tolist():
        rows = judgement.rows[refused_by == number]
        if registry.FILTERS[number - 1 : number] == (node_resources_fit,):
            _count_short(found, node_resources_fit.checked_requests(found, shape, config), rows, tallies)
            continue
        refusals = registry.explain_refusals(found, shape, rows.tolist(), number, config)
        for row, refusal in zip(rows.tolist(), refusals, strict=True):
            for reason in refusal.reasons:
                tallies.setdefault(str(reason), ReasonTally(refusal.rule)).add(row)
    counted = sorted(tallies.items(), key=lambda pair: (-pair[1].count, pair[0]))
    return tuple(_make_reason(found, shape, text, tally) for text, tally in counted)


def _count_short(
    found: cluster_snapshot.Snapshot, wanted: list[tuple[int, int]], rows: arrays.Rows, tallies: dict[str, ReasonTally]
) -> None:
    """Count insufficient resources with arrays: they are the most frequent reason."""
    for column, requested in wanted:
        free, capacity = found.nodes.free[column], found.nodes.allocatable[column]
        short = rows[free[rows] < requested]
        if len(short):
            row = int(short[free[short].argmax()])
            reason = scheduling_reasons.Insufficient(
                "",
                resource=found.nodes.resources[column],
                requested=requested,
                used=int(capacity[row] - free[row]),
                capacity=int(capacity[row]),
            )
            tallies[str(reason)] = ReasonTally(
                node_resources_fit.NAME, len(short), short[:_EXAMPLES].tolist(), (row, reason)
            )


def format_fit_error(fitting: int, total: int, reasons: tuple[fit_report.FitReason, ...]) -> str:
    """The FitError message of kube-scheduler."""
    if not total:
        return "no nodes available to schedule pods"
    # A PreFilter rejection has no counts per node.
    parts = sorted(f"{reason.count} {reason.reason}" if reason.nodes else reason.reason for reason in reasons)
    return f"{fitting}/{total} nodes are available{': ' if parts else ''}{', '.join(parts)}."


def _node_verdicts(
    found: cluster_snapshot.Snapshot, shape: facts.PodShape, judgement: scheduling_reasons.Diagnosis
) -> Iterator[fit_report.NodeVerdict]:
    """The verdict of each node."""
    for row in judgement.rows.tolist():
        refusal = judgement[row]
        if refusal is None:
            yield fit_report.NodeVerdict(found.nodes.names[row], fits=True)
            continue
        told = sorted(
            (str(reason), obstacles.find_detail(found, shape, row, refusal.rule, reason)) for reason in refusal.reasons
        )
        texts, details = zip(*told, strict=True) if told else ((), ())
        yield fit_report.NodeVerdict(
            found.nodes.names[row], False, refusal.rule, str(refusal.code), tuple(texts), tuple(details)
        )


# Details of reasons


def _make_reason(
    found: cluster_snapshot.Snapshot, shape: facts.PodShape, text: str, tally: ReasonTally
) -> fit_report.FitReason:
    names = tuple(found.nodes.names[row] for row in tally.rows)
    shortage, detail = None, _format_list(names, tally.count)
    if tally.closest is not None:
        row, short = tally.closest
        shortage = _shortage(found.nodes.names[row], short)
        detail = _describe_closest(shortage.node, short)
    elif tally.rule == node_affinity.NAME and (missing := _missing_label(found, shape.spec)):
        detail = missing
    else:
        detail = _describe_reason(found, shape, text, tally) or detail
    return fit_report.FitReason(text, tally.rule, tally.count, names, shortage, detail)


def _describe_reason(found: cluster_snapshot.Snapshot, shape: facts.PodShape, text: str, tally: ReasonTally) -> str:
    """The detail of the first node; for taints, which many nodes share, also the nodes that have them."""
    told = list(
        dict.fromkeys(
            obstacles.find_detail(found, shape, row, tally.rule, scheduling_reasons.Reason(text)) for row in tally.rows
        )
    )
    if tally.rule != taint_toleration.NAME or not all(told):
        return told[0]
    if len(told) > 1:
        return ", ".join(told)
    return f"{told[0]} ({_format_list(tuple(found.nodes.names[row] for row in tally.rows), tally.count)})"


def _free_amount(reason: scheduling_reasons.Insufficient) -> int:
    return reason.capacity - reason.used


def _shortage(node: str, reason: scheduling_reasons.Insufficient) -> fit_report.ResourceShortage:
    def format_amount(amount: int) -> str:
        return formatting.format_quantity(reason.resource, amount)

    requested, free, capacity = (
        format_amount(reason.requested),
        format_amount(_free_amount(reason)),
        format_amount(reason.capacity),
    )
    return fit_report.ResourceShortage(reason.resource, requested, free, capacity, node)


def _describe_closest(node: str, reason: scheduling_reasons.Insufficient) -> str:
    if reason.resource == facts.PODS:
        return f"{reason.used} of {reason.capacity} on {node}"
    needed = formatting.format_short_quantity(reason.resource, reason.requested, up=True)
    if reason.capacity == 0:
        return f"needs {needed}, these have none"
    return (
        f"needs {needed}, most free {formatting.format_short_quantity(reason.resource, _free_amount(reason))} on {node}"
    )


def _missing_label(found: cluster_snapshot.Snapshot, spec: facts.PodSpec) -> str:
    """A label of the pod's nodeSelector that no node has."""
    for key, value in spec.node_selector:
        if not (found.nodes.requirement_mask(Requirement(key, Operator.IN, (value,))) & found.nodes.alive).any():
            return f"no node has {key}={value}"
    return ""


def _format_list(names: tuple[str, ...], count: int) -> str:
    more = f" and {count - len(names)} more" if count > len(names) else ""
    return ", ".join(names) + more


PodNotes = Mapping[str, tuple[str, ...]]
"""Notes on pods that the engine's facts do not contain, by `namespace/name`."""

_NAMED = 3


@dataclass(frozen=True, slots=True)
class PodGroup:
    """Pods of one owner that are equal for all filters, and notes on them."""

    shape: facts.PodShape
    notes: tuple[str, ...]
    pods: list[facts.Pod] = field(default_factory=list)


def make_report(
    objects: cluster_dump.ClusterObjects,
    notes: PodNotes,
    profile: scheduler_config.SchedulerProfile,
    explained: str | None,
    *,
    verbose: bool,
) -> fit_report.FitReport:
    """Check every pending pod; node by node if `verbose`, or only the `explained` pod."""
    found = cluster_dump.build_snapshot(objects)
    groups = _group_pods(found, objects.pods, notes, profile)
    if explained is not None:
        groups = [_choose_group(groups, explained, objects.pods)]
    item = verbose or explained is not None
    judge = functools.cache(lambda shape: analyze_shape(found, shape, profile.filters, each=item))
    return fit_report.FitReport(
        nodes=len(found.nodes.rows),
        running=sum(len(found.pods_on(row)) for row in found.nodes.rows.values()),
        pending=tuple(_make_finding(group, judge(group.shape)) for group in groups),
        set_aside=tuple(_unreadable_object(error) for error in objects.set_aside),
        warnings=tuple(_find_warnings(objects, found)),
    )


def _group_pods(
    found: cluster_snapshot.Snapshot,
    pods: Iterable[facts.Pod],
    notes: PodNotes,
    profile: scheduler_config.SchedulerProfile,
) -> list[PodGroup]:
    """Pending pods, in order of appearance."""
    groups: dict[object, PodGroup] = {}
    for pod in pods:
        if not pod.node_name and pod.phase not in cluster_snapshot.FINISHED_PHASES:
            shape = found.shape_of(pod)
            told = (*notes.get(pod.key, ()), *_pod_notes(pod, profile))
            groups.setdefault((shape.id, pod.owner or pod.key, told), PodGroup(shape, told)).pods.append(pod)
    return list(groups.values())


def _pod_notes(pod: facts.Pod, profile: scheduler_config.SchedulerProfile) -> Iterator[str]:
    if pod.scheduler != profile.scheduler_name:
        yield f"it is for the scheduler {pod.scheduler}, checked here as by {profile.scheduler_name}"
    if pod.is_terminating:
        yield "it is being deleted, and no longer scheduled"
    if pod.nominated_node:
        yield f"it is nominated to {pod.nominated_node}, where pods are preempted for it"


def _choose_group(groups: list[PodGroup], explained: str, pods: list[facts.Pod]) -> PodGroup:
    """The group of the pod `namespace/name`, or `name`."""
    chosen = [(group, pod) for group in groups for pod in group.pods if explained in (pod.key, pod.name)]
    if len(chosen) == 1:
        group, pod = chosen[0]
        return PodGroup(group.shape, group.notes, [pod])
    if chosen:
        names = ", ".join(pod.key for _, pod in chosen)
        raise errors.InvalidInput(f"--explain {explained}: found {names}, expected one; name its namespace")
    for pod in pods:
        if explained in (pod.key, pod.name):
            state = f"it is on {pod.node_name}" if pod.node_name else f"its phase is {pod.phase}"
            raise errors.InvalidInput(f"--explain {explained}: expected a pod that is pending, but {state}")
    raise errors.InvalidInput(f"--explain {explained}: no such pod among those that could be read")


def _make_finding(group: PodGroup, judged: ShapeResult) -> fit_report.PodFinding:
    owner = group.pods[0].owner
    return fit_report.PodFinding(
        pod=group.pods[0].key,
        count=len(group.pods),
        pods=tuple(pod.key for pod in group.pods),
        owner=f"{owner.kind}/{owner.name}" if owner else None,
        requests=formatting.format_quantities(group.shape.spec.requests),
        notes=group.notes,
        fits=judged.fits,
        nodes=judged.nodes,
        message=judged.message,
        reasons=judged.reasons,
        verdicts=judged.verdicts,
    )


def _unreadable_object(error: errors.InvalidObject) -> fit_report.UnreadableObject:
    return fit_report.UnreadableObject(error.kind, error.name, error.field, error.found, error.accepted)


def _find_warnings(objects: cluster_dump.ClusterObjects, found: cluster_snapshot.Snapshot) -> Iterator[str]:
    known = {kind.lower(): f"{version} {kind}" for version, kind in cluster_dump.READERS}
    for passed, count in objects.passed_over.items():
        meant = known.get(passed.rsplit(" ", 1)[-1].lower().removesuffix("s"))
        if meant is not None:
            yield f"passed over {count} of {passed}: expected {meant}"
    bound = (
        pod.node_name for pod in objects.pods if pod.node_name and pod.phase not in cluster_snapshot.FINISHED_PHASES
    )
    unknown = dict.fromkeys(name for name in bound if name not in found.nodes.rows)
    if unknown:
        names = list(unknown)
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"pods on unknown nodes are ignored: {', '.join(names[:_NAMED])}{more}"
