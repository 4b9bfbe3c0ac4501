"""Latency of removals: how long after it might have gone an unneeded node went, or was needed again.

Told with --node-removal-latency-tracking-enabled. Nodes that went, or were needed, before their time tell nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from windlass.engine import decide, plan
from windlass.engine.observation import Observation
from windlass.engine.scale_down import unneeded
from windlass.engine.scale_down.removal import Unremovable
from windlass.engine.settings import Settings, for_group

NO_DELAY = "none"
_WAITING = frozenset({Unremovable.NOT_UNNEEDED_LONG_ENOUGH, Unremovable.NOT_UNREADY_LONG_ENOUGH})


@dataclass(frozen=True, slots=True)
class Unneeded:
    """A node that is unneeded."""

    since_s: float
    wait_s: float
    """How long it must be before it may go."""
    delay: str = NO_DELAY
    """What last kept it beyond that."""


Tracked = Mapping[str, Unneeded]
"""By node name."""


@dataclass(frozen=True, slots=True)
class Latency:
    """A node went, or is needed again, so long after it might have gone."""

    deleted: bool
    delay: str
    seconds: float

    @property
    def labels(self) -> tuple[str, str]:
        return ("true" if self.deleted else "false", self.delay)


def track(
    before: Tracked, seen: Observation, decision: decide.Decision, settings: Settings, now_s: float
) -> tuple[Tracked, list[Latency]]:
    """What is unneeded now, and what became of the rest. A loop that did not look changes nothing."""
    story = decision.story.scale_down
    if story.look is None:
        return before, []
    since, table, group_of = decision.memory.durable.scale_down.since, seen.snapshot.nodes, seen.group_of_nodes()
    now: dict[str, Unneeded] = {}
    for name, since_s in since.items():
        group = group_of.get(name)
        if group is not None and name in table.rows:
            wait_s = unneeded.find_wait_s(table.facts[table.rows[name]], for_group(settings, group.options))
            known = before.get(name, Unneeded(since_s, wait_s))
            now[name] = replace(known, wait_s=wait_s)
    for kept in story.choice.kept if story.choice is not None else ():
        if kept.node_name in now and kept.reason not in _WAITING:
            now[kept.node_name] = replace(now[kept.node_name], delay=str(kept.reason))
    going = {one.node for one in decision.plan if isinstance(one, plan.Drain)}
    ended = {name: one for name, one in {**before, **now}.items() if name in going or name not in now}
    told = [Latency(name in going, one.delay, now_s - one.since_s - one.wait_s) for name, one in ended.items()]
    left = {name: one for name, one in now.items() if name not in going}
    return left, [one for one in told if one.seconds > 0]
