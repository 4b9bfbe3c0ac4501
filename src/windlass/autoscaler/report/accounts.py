"""Accounts: all that is to be said of a decision, made while what was seen can still be looked up.

Acting takes its time, and the snapshot moves on meanwhile; an account does not.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from windlass.autoscaler.report import counting, events, readings
from windlass.autoscaler.report.latency import Latency
from windlass.engine import advance, decide, facts, replicas_owners
from windlass.engine.observation import Observation
from windlass.engine.settings import Settings
from windlass.kube.events import About


@dataclass(frozen=True, slots=True)
class Account:
    """What is to be said of a decision, or of drains that moved on, once it is known what became of it."""

    decision: decide.Decision | advance.Advanced
    now_s: float
    """When it was decided."""
    told: events.Told = field(default_factory=events.Told)
    doing: events.Doing = field(default_factory=events.Doing)
    known: counting.Known = field(default_factory=counting.Known)
    groups: tuple[facts.NodeGroup, ...] = ()
    group_of: Mapping[str, facts.NodeGroup] = field(default_factory=dict)
    """By node name."""
    gauges: readings.Readings = field(default_factory=dict)
    counts: tuple[counting.Count, ...] = ()
    latencies: tuple[Latency, ...] = ()
    held: tuple[facts.HeldGroup, ...] = ()
    """Groups that are left alone."""


def of_decision(
    seen: Observation,
    decision: decide.Decision,
    settings: Settings,
    status: About,
    latencies: Iterable[Latency],
    now_s: float,
) -> Account:
    """What is to be said of a loop, but for gauges. `status` is the status ConfigMap."""
    known = counting.know(seen, decision)
    return Account(
        decision,
        now_s,
        events.tell_decision(seen, decision, settings, status, now_s),
        events.doing_decision(seen, decision, settings),
        known,
        seen.groups,
        seen.group_of_nodes(),
        counts=(*counting.count_decision(decision, known), *counting.count_opinions(seen)),
        latencies=tuple(latencies),
        held=(*seen.held, *_hold_owned(seen, settings)),
    )


def _hold_owned(seen: Observation, settings: Settings) -> Iterator[facts.HeldGroup]:
    """Groups that are left alone because another controller applies their size."""
    for id, why in replicas_owners.list_left_alone(seen.groups, settings.deviations):
        yield facts.HeldGroup(id, why)


def of_advance(seen: Observation, advanced: advance.Advanced, before: events.Drains, now_s: float) -> Account:
    """What is to be said of drains that moved on. `before` are those that were known until now."""
    return Account(
        advanced,
        now_s,
        events.tell_advance(seen, advanced, before),
        events.doing_advance(seen, advanced, before),
        counting.know(seen, advanced),
        gauges=readings.read_advance(advanced),
        counts=tuple(counting.count_advance(advanced, before)),
    )
