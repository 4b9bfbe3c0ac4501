"""Quiet: until when a decision stands if nothing is seen to change.

Time alone changes a decision where something has been waited for long enough: a node to start, a pod to be old enough,
a timer to end. The earliest of these times is the end of the quiet. It may be too early, which costs a loop that finds
nothing new; it is never too late.

A decision that orders something is not quiet: what it ordered is about to change the world. Nor is one after which
other nodes are unneeded than before, because these are tried first the next time, and others may come out then; nor one
that draws the order of its search at random, as the peer does.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from windlass.engine import facts, health, health_timers, plan
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
    rows = snapshot.waiting()
    created_s = snapshot.pods.created_s[rows].tolist()
    chosen = settings.deviations
    window = (chosen.quiet_window_s, chosen.quiet_window_max_s)
    youth = window if chosen.quiet_window_s > 0 else (pending.YOUNG_S, pending.YOUNG_WITH_GPU_S)
    waits = {settings.pods.new_pod_scale_up_delay_s, *youth}
    for row, since_s in zip(rows, created_s, strict=True):
        own_s = snapshot.pods.kind(row).scale_up_delay_s
        yield from (since_s + wait_s for wait_s in (waits if own_s is None else {*waits, own_s}))


def _templates(nodes: Iterable[facts.Node], group_of: Mapping[str, facts.NodeGroup]) -> Iterator[float]:
    """When nodes have been ready for long enough to speak for their group."""
    for node in nodes:
        if node.name in group_of:
            ready = next((one for one in node.conditions if one.type == "Ready"), None)
            if ready is not None:
                yield ready.since_s + templates.STABLE_FOR_S


def _scale_down(story: ScaleDownStory) -> Iterator[float]:
    if story.look is not None:
        yield story.look.changes_at_s
    if story.choice is not None:
        yield story.choice.changes_at_s


def _cooldowns(durable: Durable, settings: Settings) -> Iterator[float]:
    for activity in (durable.activity, *durable.activities.values()):
        yield cooldown.ends_at_s(activity, settings.scale_down)
