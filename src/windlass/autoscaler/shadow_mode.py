"""Shadow mode and dry run: decide, change nothing, and derive a memory that fits the actions of others.

    memory = shadow.before_decision(seen, memory, settings, now_s)
    decision = decide(seen, memory, settings, now_s)
    memory = shadow.after_decision(seen, memory, decision, now_s)    # instead of acting

`Shadow` compares each decision with the actions of another autoscaler on the same cluster, counts verdicts as
`windlass_shadow_*` metrics and logs a summary at the end. Drains belong to the other autoscaler: the drain loop does
not run.
"""

import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import prometheus_client

from windlass.autoscaler import shadow_comparison
from windlass.autoscaler.shadow_comparison import (
    ObservedAction,
    ObservedRemoval,
    ObservedResize,
    ScaleDirection,
    ShadowVerdict,
    VerdictKind,
    VerdictTotals,
)
from windlass.engine import taints
from windlass.engine.cluster_state import scale_requests
from windlass.engine.loop import Decision
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import cluster_health, facts, node_groups, scale_down_state
from windlass.engine.model.durable_memory import DurableMemory, StartedDrain
from windlass.engine.model.settings import Settings, for_group
from windlass.engine.observation import Observation
from windlass.engine.scale_down import unneeded
from windlass.kube import time_formats
from windlass.observability import klog


def initial_memory(observation: Observation, settings: Settings, now_s: float) -> LoopMemory:
    """Return the initial memory of a shadow: unneeded times come from the other autoscaler's taints, and missing nodes
    count as upcoming, because the other autoscaler may have requested them.

    The shadow skips the first loop's clean-up of stale taints: the other autoscaler is still running.
    """
    since = unneeded.restore_unneeded_since(observation.nodes, float("inf"), now_s)
    registered = Counter(group.id for group in observation.group_of_nodes().values())
    awaited = {
        group.id: scale_requests.make_external_request(
            group.target_size - registered[group.id],
            now_s,
            for_group(settings, group.options).max_node_provision_time_s,
        )
        for group in observation.groups
        if group.target_size > registered[group.id]
    }
    return LoopMemory(
        DurableMemory(
            loop=1,
            health=cluster_health.HealthMemory(cluster_health.ScaleRequests(awaited)),
            scale_down=scale_down_state.ScaleDownState(since=since, previous=frozenset(since)),
        )
    )


def adopt_actions(
    memory: LoopMemory, deeds: Iterable[ObservedAction], observation: Observation, settings: Settings, now_s: float
) -> LoopMemory:
    """Return the memory to decide with: as if the observed actions had been windlass's own."""
    groups = {group.id: group for group in observation.groups}
    durable = replace(memory.durable, drains=_find_drains(memory.durable.drains, observation, now_s))
    if settings.deviations.pause_after_failed_drains:
        durable = _record_failed_drains(durable, memory.durable.drains, observation, now_s)
    for deed in deeds:
        match deed:
            case ObservedResize(group, from_size, to_size) if to_size > from_size and group in groups:
                durable = _record_scale_up(durable, groups[group], to_size - from_size, settings, now_s)
            case ObservedRemoval(node, group, at_s):
                durable = _record_scale_down(durable, group, node, at_s, settings)
    return replace(memory, durable=durable)


def memory_without_plan(before: LoopMemory, decision: Decision) -> LoopMemory:
    """Return the memory after a decision that was not carried out: observations, without the plan's effects.

    `before`: input memory of the decision. Observed scale-up requests, backoffs, sizes and unneeded times are kept;
    requests, drains and delays that the plan would have started are not.
    """
    after = decision.memory.durable
    durable = replace(
        after,
        health=_drop_own_requests(after.health, decision.story.health.memory),
        activity=before.durable.activity,
        activities=before.durable.activities,
        drains=before.durable.drains,
    )
    return replace(decision.memory, durable=durable)


def _drop_own_requests(
    after: cluster_health.HealthMemory, health_memory: cluster_health.HealthMemory
) -> cluster_health.HealthMemory:
    """Return the scale-up requests of the input memory, with the rest of the decision's memory."""
    return replace(after, requests=health_memory.requests)


def _record_scale_up(
    durable: DurableMemory, group: node_groups.NodeGroup, by: int, settings: Settings, now_s: float
) -> DurableMemory:
    wait_s = for_group(settings, group.options).max_node_provision_time_s
    asked = scale_requests.register_scale_up(durable.health.requests, group.id, by, now_s, wait_s)
    own = replace(durable.activities.get(group.id, scale_down_state.ScaleActivity()), added_s=now_s)
    return replace(
        durable,
        health=replace(durable.health, requests=asked),
        activity=replace(durable.activity, added_s=now_s),
        activities={**durable.activities, group.id: own},
    )


def _record_scale_down(durable: DurableMemory, group: str, node: str, at_s: float, settings: Settings) -> DurableMemory:
    asked = scale_requests.register_scale_down(durable.health.requests, group, node, at_s)
    deleted_s = at_s + settings.drain.node_delete_delay_after_taint_s
    own = replace(durable.activities.get(group, scale_down_state.ScaleActivity()), deleted_s=deleted_s)
    return replace(
        durable,
        health=replace(durable.health, requests=asked),
        activity=replace(durable.activity, deleted_s=at_s),
        activities={**durable.activities, group: own},
    )


def _record_failed_drains(
    durable: DurableMemory, before: Mapping[str, StartedDrain], observation: Observation, now_s: float
) -> DurableMemory:
    """Record failed drains: draining nodes that still exist without the ToBeDeleted taint."""
    there = {node.name for node in observation.nodes}
    for name in before.keys() & there - durable.drains.keys():
        group = before[name].group
        own = replace(durable.activities.get(group, scale_down_state.ScaleActivity()), failed_s=now_s)
        durable = replace(
            durable,
            activity=replace(durable.activity, failed_s=now_s),
            activities={**durable.activities, group: own},
        )
    return durable


def _find_drains(known: Mapping[str, StartedDrain], observation: Observation, now_s: float) -> dict[str, StartedDrain]:
    """Return the drains of the other autoscaler: nodes with the ToBeDeleted taint."""
    group_of, drains = observation.group_of_nodes(), {}
    for node in observation.nodes:
        if node.name in group_of and taints.has_taint(node, taints.TO_BE_DELETED_KEY):
            since_s = taints.marked_at_s(node, taints.TO_BE_DELETED_KEY) or now_s
            fresh = StartedDrain(group_of[node.name].id, since_s, _is_empty(node, observation), uid=node.uid)
            drains[node.name] = known.get(node.name, fresh)
    return drains


def _is_empty(node: facts.Node, observation: Observation) -> bool:
    """Whether only DaemonSet and mirror pods are on the node."""
    snapshot = observation.snapshot
    pods = (snapshot.pod(row) for row in snapshot.pods_on(snapshot.nodes.rows[node.name]))
    return all(pod.owner is not None and pod.owner.kind in ("DaemonSet", "Node") for pod in pods)


class DryRun:
    """Dry run: an observer that compares with no other autoscaler."""

    def before_decision(
        self, observation: Observation, memory: LoopMemory, settings: Settings, now_s: float
    ) -> LoopMemory:
        """Return the memory to decide with, unchanged."""
        return memory

    def after_decision(
        self, observation: Observation, before: LoopMemory, decision: Decision, now_s: float
    ) -> LoopMemory:
        """Return the memory after the decision, without the plan's effects."""
        return memory_without_plan(before, decision)


class ShadowMetrics:
    """Counts verdicts. Every series exists from the start, at 0, so that rates can be computed."""

    def __init__(self, registry: prometheus_client.CollectorRegistry) -> None:
        self._verdicts = prometheus_client.Counter(
            "windlass_shadow_verdicts",
            "Comparisons of what windlass would do with what the other autoscaler did, by outcome.",
            ("direction", "verdict"),
            registry=registry,
        )
        self._nodes = prometheus_client.Counter(
            "windlass_shadow_nodes",
            "Nodes that windlass would have added or removed, and that the other autoscaler did.",
            ("direction", "autoscaler"),
            registry=registry,
        )
        self._lead = prometheus_client.Summary(
            "windlass_shadow_lead_seconds",
            "How much sooner windlass wanted what the other autoscaler did; negative: later.",
            ("direction",),
            registry=registry,
        )
        for direction in ScaleDirection:
            self._lead.labels(direction.value)
            for kind in VerdictKind:
                self._verdicts.labels(direction.value, kind.value)
            for who in ("windlass", "other"):
                self._nodes.labels(direction.value, who)

    def count(self, verdict: ShadowVerdict) -> None:
        direction = verdict.direction.value
        self._verdicts.labels(direction, verdict.kind.value).inc()
        if verdict.kind is not VerdictKind.LATE:  # counted when it was reported as a difference
            self._nodes.labels(direction, "windlass").inc(verdict.wanted)
        self._nodes.labels(direction, "other").inc(verdict.done)
        if verdict.kind.is_agreement and verdict.lead_s is not None:
            self._lead.labels(direction).observe(verdict.lead_s)


_MAX_DIFFERENCES_SHOWN = 20
"""Maximum number of differences in the summary; the last ones are shown."""


def format_summary(totals: VerdictTotals, differences: Sequence[ShadowVerdict], ran_s: float) -> str:
    """Format the summary, without a trailing newline."""
    return "\n".join(_summary_lines(totals, differences, ran_s))


def _summary_lines(totals: VerdictTotals, differences: Sequence[ShadowVerdict], ran_s: float) -> Iterator[str]:
    yield f"shadow of another autoscaler for {time_formats.format_duration(round(ran_s))}"
    yield ""
    yield f"{'':12}" + "".join(f"{head:>16}" for head in (*VerdictKind, "nodes here", "nodes there", "sooner by"))
    for direction in ScaleDirection:
        counts = [totals.counts[direction, kind] for kind in VerdictKind]
        cells = [*map(str, counts), str(totals.wanted[direction]), str(totals.done[direction])]
        agreed = totals.agreements(direction)
        cells.append(
            time_formats.format_duration(round(totals.leads_s.get(direction, 0.0) / agreed, 1)) if agreed else "-"
        )
        yield f"{direction:12}" + "".join(f"{cell:>16}" for cell in cells)
    yield ""
    agreed, all_of_them = (
        sum(count(direction) for direction in ScaleDirection) for count in (totals.agreements, totals.all)
    )
    yield f"agreed on {agreed} of {all_of_them}" if all_of_them else "neither of both did anything"
    if differences:
        yield ""
        yield (
            "differences:"
            if len(differences) <= _MAX_DIFFERENCES_SHOWN
            else f"the last {_MAX_DIFFERENCES_SHOWN} of {len(differences)} differences:"
        )
        yield from (f"  {verdict}" for verdict in differences[-_MAX_DIFFERENCES_SHOWN:])


_MAX_REASONS = 10_000

_MAX_DIFFERENCES = 1000
"""Maximum number of reasons and differences kept; the last ones."""

_log = logging.getLogger(__name__)


class Shadow:
    """Shadow mode: compares every decision."""

    def __init__(self, window_s: float, registry: prometheus_client.CollectorRegistry) -> None:
        self.totals = shadow_comparison.VerdictTotals()
        self.differences: deque[shadow_comparison.ShadowVerdict] = deque(maxlen=_MAX_DIFFERENCES)
        self._window_s = window_s
        self._metrics = ShadowMetrics(registry)
        self._baseline: shadow_comparison.ActionBaseline | None = None
        self._began_s = self._now_s = 0.0
        self._observed_actions: tuple[shadow_comparison.ObservedAction, ...] = ()
        self._inaction_reasons = shadow_comparison.InactionReasons()
        self._comparisons = shadow_comparison.ComparisonState()
        self._theirs: dict[str, str] = {}
        self._silence: dict[str, str] = {}

    def on_event(self, autoscaler_event: shadow_comparison.AutoscalerEvent) -> None:
        """Handle an event of the other autoscaler: a reason for its action or inaction."""
        if autoscaler_event.reason == "NotTriggerScaleUp":
            _remember_reason(self._silence, autoscaler_event.about, autoscaler_event.message)
        elif autoscaler_event.reason == "TriggeredScaleUp":
            for group in autoscaler_event.steps:
                _remember_reason(self._theirs, group, f"{autoscaler_event.about}: {autoscaler_event.message}")
        elif autoscaler_event.reason in ("ScaleDown", "ScaleDownEmpty"):
            _remember_reason(self._theirs, autoscaler_event.about, autoscaler_event.message)

    def before_decision(
        self, observation: Observation, memory: LoopMemory, settings: Settings, now_s: float
    ) -> LoopMemory:
        """Return the memory to decide with, after adopting the other autoscaler's actions since the last
        observation.
        """
        if self._baseline is None:
            self._began_s = now_s
            memory = initial_memory(observation, settings, now_s)
        else:
            self._observed_actions = shadow_comparison.find_observed_actions(self._baseline, observation, now_s)
        self._baseline, self._now_s = shadow_comparison.take_baseline(observation), now_s
        return adopt_actions(memory, self._observed_actions, observation, settings, now_s)

    def after_decision(
        self, observation: Observation, before: LoopMemory, decision: Decision, now_s: float
    ) -> LoopMemory:
        """Return the memory after the decision, and compare the decision with the observed actions; `before`: result of
        `before_decision`.
        """
        proposed = shadow_comparison.find_proposed_actions(observation, decision, now_s)
        turn = shadow_comparison.ComparisonInput(
            self._observed_actions, proposed, self._inaction_reasons, self._theirs, self._silence, now_s
        )
        self._comparisons, shadow_verdicts = shadow_comparison.update_comparisons(
            self._comparisons, turn, self._window_s
        )
        self._report(shadow_verdicts)
        self._inaction_reasons = shadow_comparison.find_inaction_reasons(decision)
        return memory_without_plan(before, decision)

    def end(self) -> str:
        """Close open comparisons, and return the summary."""
        self._report(shadow_comparison.close_comparisons(self._comparisons, self._now_s))
        self._comparisons = shadow_comparison.ComparisonState()
        return format_summary(self.totals, list(self.differences), self._now_s - self._began_s)

    def _report(self, shadow_verdicts: tuple[shadow_comparison.ShadowVerdict, ...]) -> None:
        for verdict in shadow_verdicts:
            self.totals = self.totals.add(verdict)
            self._metrics.count(verdict)
            if not verdict.kind.is_agreement:
                self.differences.append(verdict)
            pairs = klog.key_values(direction=verdict.direction, verdict=verdict.kind, subject=verdict.subject)
            _log.info("shadow comparison: %s", verdict, extra=pairs)


def _remember_reason(reasons: dict[str, str], about: str, message: str) -> None:
    """Store the latest reason of a subject, and evict the least recently updated."""
    reasons.pop(about, None)
    reasons[about] = message
    if len(reasons) > _MAX_REASONS:
        del reasons[next(iter(reasons))]
