"""Quiet: until when a decision stands if nothing is seen to change.

Time alone changes a decision where something has been waited for long enough: a node to start, a pod to be old enough,
a timer to end. The earliest of these times is the end of the quiet. It may be too early, which costs a loop that finds
nothing new; it is never too late.

A decision that orders something is not quiet: what it ordered is about to change the world. Nor is one after which
other nodes are unneeded than before, because these are tried first the next time, and others may come out then; nor one
that draws the order of its search at random, as the peer does.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from windlass.engine import facts, health, health_timers, plan, readiness
from windlass.engine.draining import marking
from windlass.engine.memory import Durable
from windlass.engine.observation import Observation
from windlass.engine.scale_down import cooldown, kinds
from windlass.engine.scale_up import pending, templates
from windlass.engine.settings import Settings
from windlass.engine.snapshot import Snapshot
from windlass.engine.story import ScaleDownStory


def find_until_s(
    seen: Observation,
    found: health.Health,
    nodes: Sequence[facts.Node],
    group_of: Mapping[str, facts.NodeGroup],
    ordered: plan.Plan,
    before: Durable,
    durable: Durable,
    shrunk: ScaleDownStory,
    settings: Settings,
    now_s: float,
) -> float:
    """The earliest time at which the same observation may be decided otherwise; now, if it may at any time."""
    has_settled = durable.scale_down.previous == before.scale_down.previous
    if ordered or not has_settled or not settings.deviations.tight_packing:
        return now_s
    times = (
        *_pending(seen.snapshot, settings),
        *_templates(nodes, group_of),
        *_scale_down(shrunk),
        *_cooldowns(durable, settings),
        *(gone_at_s for _, gone_at_s in kinds.terminating(seen.snapshot.pods)),
        *(drain.since_s + marking.MARK_WITHIN_S for drain in durable.drains.values()),
    )
    return min(
        health_timers.find_next_change_s(found, nodes, seen.groups, group_of, settings, now_s),
        min((time_s for time_s in times if time_s >= now_s), default=float("inf")),
    )


def _pending(snapshot: Snapshot, settings: Settings) -> Iterator[float]:
    """When pods that wait become old enough, or so old that more of them need not be waited for."""
    rows = np.array(snapshot.waiting(), np.intp)
    created_s, kind_ids = snapshot.pods.created_s[rows], snapshot.pods.kind_ids[rows]
    chosen = settings.deviations
    window = (chosen.quiet_window_s, chosen.quiet_window_max_s)
    youth = window if chosen.quiet_window_s > 0 else (pending.YOUNG_S, pending.YOUNG_WITH_GPU_S)
    for wait_s in {settings.pods.new_pod_scale_up_delay_s, *youth}:
        yield from (created_s + wait_s).tolist()
    for kind_id in set(kind_ids.tolist()):
        own_s = snapshot.pods.kinds[kind_id].scale_up_delay_s
        if own_s is not None:
            yield from (created_s[kind_ids == kind_id] + own_s).tolist()


def _templates(nodes: Iterable[facts.Node], group_of: Mapping[str, facts.NodeGroup]) -> Iterator[float]:
    """When nodes have been ready for long enough to speak for their group."""
    for node in nodes:
        if node.name in group_of:
            for condition in node.conditions:
                if condition.type in readiness.DECIDING_CONDITIONS:
                    yield condition.since_s + templates.STABLE_FOR_S


def _scale_down(story: ScaleDownStory) -> Iterator[float]:
    if story.look is not None:
        yield story.look.changes_at_s
    if story.choice is not None:
        yield story.choice.changes_at_s


def _cooldowns(durable: Durable, settings: Settings) -> Iterator[float]:
    for activity in (durable.activity, *durable.activities.values()):
        yield cooldown.ends_at_s(activity, settings.scale_down)
