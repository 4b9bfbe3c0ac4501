"""A day out of a seed: at most thirty nodes, some work, and trouble of all kinds until the evening."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import msgspec

from tests.chaos.faults import MANAGEMENT, NOT, Edit, Jump, Kill, Pause, Spell, Weather
from windlass.simulator.scenario import loader, model

DAY_S = 24 * 3600.0
EVENING_S = 18 * 3600.0
"""From here on nothing goes wrong any more, and there is work for a third of the machines at most."""
MOST_NODES = 30
_ONE_IN = 4
"""So many days, one of which has its decisions made in a thread."""
_MOST_JOBS_AN_HOUR = 3.0
_SHAPES = ((2, 8), (4, 16), (8, 32))
_ANNOTATIONS = ("min-size", "max-size")
_NONSENSE = ("", "-1", "three", "1e9", "9" * 30, "0x10", " 2", "2.5", "null", "½", "7", "1000")
_KINDS: tuple[Literal["Deployment", "StatefulSet", "Job"], ...] = ("Deployment", "Deployment", "StatefulSet", "Job")
_CLUSTERS = ("", MANAGEMENT, NOT + MANAGEMENT)
"""Both, the one with the Machines, the one with the pods."""
_WATCHED = ("", "", "/nodes", "/machines", "/pods")
_WRITTEN = ("", "", "/scale", "/eviction", "/nodes", "/machines", "/pods", "/configmaps", "/events")
_FLAGS: tuple[tuple[str, tuple[str | int | bool, ...]], ...] = (
    ("scan-interval", ("30s", "1m", "2m")),
    ("expander", ("least-waste", "random", "most-pods", "least-nodes", "price,random", "priority")),
    ("scale-down-unneeded-time", ("1m", "5m", "10m")),
    ("scale-down-delay-after-add", ("0s", "2m", "10m")),
    ("max-node-provision-time", ("3m", "15m")),
    ("max-drain-parallelism", (1, 3)),
    ("max-scale-down-parallelism", (1, 10)),
    ("balance-similar-node-groups", (True, False)),
    ("max-graceful-termination-sec", (30, 600)),
    ("enforce-node-group-min-size", (True, False)),
    ("cordon-node-before-terminating", (True, False)),
    ("behavior", ("windlass", "windlass", "windlass", "cluster-autoscaler")),
)


@dataclass(frozen=True, slots=True)
class Day:
    """What there is, and what goes wrong."""

    scenario: model.Scenario
    spells: tuple[Spell, ...]
    kills: tuple[Kill, ...]
    jumps: tuple[Jump, ...]
    edits: tuple[Edit, ...]
    pauses: tuple[Pause, ...]
    """With any of these there are two processes, and one Lease."""
    in_thread: bool = False
    """Do they decide in a thread of their own, as live?"""

    def tell(self) -> Iterator[str]:
        """All that happens, a line each."""
        if self.in_thread:
            yield "decisions are made in a thread"
        yield "flags: " + " ".join(f"--{name}={value}" for name, value in self.scenario.flags.items())
        for group in self.scenario.groups:
            yield f"group {group.name} in {','.join(group.zones)}: {group.min} to {group.max}, {group.capacity}"
        for work in self.scenario.workloads:
            yield f"{work.kind} {work.name}: {work.replicas} × {work.requests}"
        for fault in (*self.spells, *self.kills, *self.jumps, *self.edits, *self.pauses):
            yield str(fault)
        for step in self.scenario.timeline:
            yield f"{step.at:g} s: {step}"


def draw(seed: int) -> Day:
    """Always the same for the same seed."""
    chance = random.Random(seed)
    groups = tuple(_draw_groups(chance))
    works = tuple(_draw_works(chance, groups))
    steps = sorted(_draw_steps(chance, groups, works), key=lambda step: step.at)
    scenario = model.Scenario(
        name=f"chaos-{seed}",
        seed=seed,
        duration=model.Seconds(DAY_S),
        sample=model.Seconds(3600),
        flags=_draw_flags(chance),
        groups=groups,
        workloads=works,
        timeline=tuple(steps),
    )
    mistakes = loader.validate(scenario)
    assert not mistakes, mistakes
    busy_s = [float(step.at) for step in steps]
    return Day(
        scenario,
        tuple(_draw_spell(chance, busy_s) for _ in range(chance.randrange(5, 25))),
        tuple(sorted((_draw_kill(chance, busy_s) for _ in range(chance.randrange(10))), key=lambda kill: kill.at_s)),
        tuple(_draw_jump(chance, busy_s) for _ in range(chance.randrange(3))),
        tuple(_draw_edits(chance, groups, busy_s)),
        tuple(_draw_pauses(chance, busy_s)),
        seed % _ONE_IN == _ONE_IN - 1,
    )


def _draw_flags(chance: random.Random) -> dict[str, str | int | float | bool]:
    flags: dict[str, str | int | float | bool] = {
        name: chance.choice(values) for name, values in _FLAGS if chance.random() < 0.6
    }
    if flags.get("behavior") == "cluster-autoscaler":
        flags["scan-interval"] = "5m"  # it decides anew in every loop: every ten seconds would be 8,640 times a day
    return flags


def _draw_moment(chance: random.Random, busy_s: list[float]) -> float:
    """Trouble comes when there is something to do: around a step of the story, and an hour before the evening."""
    around_s = chance.choice(busy_s) + chance.choice((0.0, 60.0, 300.0, 900.0)) + chance.uniform(-30, 60)
    return min(max(around_s, 0.0), EVENING_S - 3600)


def _draw_groups(chance: random.Random) -> Iterator[model.Group]:
    left = MOST_NODES
    for number in range(chance.randrange(1, 5)):
        zones = ("a", "b", "c")[: chance.randrange(1, 4)]
        most = min(chance.randrange(2, 7), left // len(zones))
        if most < 1:
            return
        left -= most * len(zones)
        cores, memory = _SHAPES[number % len(_SHAPES)]
        least = chance.choice((0, 0, 1))
        yield model.Group(
            name=f"pool{number}",
            capacity={"cpu": cores, "memory": f"{memory}Gi", "pods": 60},
            min=least,
            max=max(most, least),
            initial=chance.randrange(least, most + 1),
            zones=zones,
            price=chance.uniform(0.1, 1.0),
            boot=model.Timing(chance.uniform(20, 150), chance.choice((0.0, 0.5)), 10.0),
            failure_rate=chance.choice((0.0, 0.0, 0.1, 0.4)),
            unready_rate=chance.choice((0.0, 0.0, 0.05)),
            remediate_after=model.Seconds(1800),
        )


def _draw_works(chance: random.Random, groups: tuple[model.Group, ...]) -> Iterator[model.Workload]:
    yield model.Workload(name="agent", kind="DaemonSet", requests={"cpu": "100m", "memory": "100Mi"})
    cores = sum(int(group.capacity["cpu"]) * group.max * len(group.zones) for group in groups)
    for number in range(chance.randrange(1, 6)):
        kind = chance.choice(_KINDS)
        work = model.Workload(
            name=f"work{number}",
            kind=kind,
            replicas=chance.randrange(12),
            requests={"cpu": chance.choice(("100m", "400m", "900m", "1500m")), "memory": "500Mi"},
            budget=_draw_budget(chance),
            grace=model.Seconds(chance.choice((5, 30, 300))),
            stop=model.Timing(chance.choice((1.0, 10.0, 120.0))),
            safe_to_evict=chance.choice((None, None, None, False)),
        )
        yield work if kind != "Job" else _as_jobs(work, chance, cores)


def _as_jobs(work: model.Workload, chance: random.Random, cores: int) -> model.Workload:
    """Jobs for a tenth of the cluster, on average, until the evening; but not hundreds, which show nothing new."""
    run_s = chance.uniform(60, 1800)
    per_hour = min(0.1 * cores * 3600 / run_s / 1.5, _MOST_JOBS_AN_HOUR)
    arrivals = model.Arrivals(per_hour=per_hour, until=model.Seconds(EVENING_S))
    return msgspec.structs.replace(work, replicas=1, budget=None, run=model.Timing(run_s, 0.3), arrivals=arrivals)


def _draw_budget(chance: random.Random) -> model.Budget | None:
    return chance.choice(
        (
            None,
            None,
            model.Budget(max_unavailable=1),
            model.Budget(min_available="80%"),
            model.Budget(max_unavailable=0),
        )
    )


def _draw_steps(
    chance: random.Random, groups: tuple[model.Group, ...], works: tuple[model.Workload, ...]
) -> Iterator[model.AnyStep]:
    kept = [work for work in works if work.kind in ("Deployment", "StatefulSet")]
    zones = sorted({zone for group in groups for zone in group.zones})
    names = [loader.node_group_name(group, zone) for group in groups for zone in group.zones]
    for _ in range(chance.randrange(10, 40)):
        at, lasts = model.Seconds(chance.uniform(0, EVENING_S)), model.Seconds(chance.uniform(60, 3600))
        group = chance.choice(names)
        work = chance.choice(kept) if kept else None
        match chance.randrange(14):
            case 0 | 1 | 2 | 9 | 10 | 11 | 12 | 13 if work is not None:
                yield model.Scale(at=at, workload=work.name, to=chance.choice((0, 0, 5, 15, 30)))
            case 3 if work is not None and work.kind == "Deployment":
                yield model.Rollout(at=at, workload=work.name)
            case 4:
                yield model.Vanish(at=at, group=group, count=chance.randrange(1, 3))
            case 5:
                yield model.Unready(at=at, group=group, count=chance.randrange(1, 3), lasts=lasts)
            case 6:
                yield model.StockOut(at=at, group=group, lasts=lasts)
            case 7:
                yield model.Outage(at=at, zone=chance.choice(zones), lasts=lasts)
            case 8:
                yield model.Upgrade(at=at, group=group)
    for work in kept:
        yield model.Scale(at=model.Seconds(EVENING_S), workload=work.name, to=chance.randrange(0, 4))


def _draw_spell(chance: random.Random, busy_s: list[float]) -> Spell:
    kind: Weather = chance.choice(get_args(Weather))
    where = {"cut": _WATCHED, "expired": _WATCHED, "lagging": _WATCHED, "behind": _WATCHED, "down": _CLUSTERS}
    return Spell(
        at_s=_draw_moment(chance, busy_s),
        lasts_s=chance.choice((60.0, 300.0, 1800.0, 3600.0)),
        kind=kind,
        share=chance.choice((0.02, 0.2, 0.6, 1.0)),
        only=chance.choice(where.get(kind, _WRITTEN)),
    )


def _draw_kill(chance: random.Random, busy_s: list[float]) -> Kill:
    return Kill(
        at_s=_draw_moment(chance, busy_s),
        writes=chance.choice((0, 1, 1, 2, 3, 5, 10)),
        has_acted=chance.random() < 0.5,
        down_s=chance.choice((1.0, 10.0, 60.0, 900.0)),
    )


def _draw_pauses(chance: random.Random, busy_s: list[float]) -> Iterator[Pause]:
    """On every fifth day."""
    if chance.random() < 0.2:
        for _ in range(chance.randrange(1, 4)):
            yield Pause(at_s=_draw_moment(chance, busy_s), lasts_s=chance.choice((10.0, 300.0, 700.0, 3600.0)))


def _draw_jump(chance: random.Random, busy_s: list[float]) -> Jump:
    return Jump(
        at_s=_draw_moment(chance, busy_s),
        lasts_s=chance.uniform(60, 3600),
        by_s=chance.choice((-86400.0, -3600.0, -60.0, 60.0, 3600.0, 86400.0)),
    )


def _draw_edits(chance: random.Random, groups: tuple[model.Group, ...], busy_s: list[float]) -> Iterator[Edit]:
    for _ in range(chance.randrange(3)):
        group = chance.choice(groups)
        yield Edit(
            at_s=_draw_moment(chance, busy_s),
            lasts_s=chance.uniform(60, 3600),
            group=loader.node_group_name(group, chance.choice(group.zones)),
            annotation=f"cluster.x-k8s.io/cluster-api-autoscaler-node-group-{chance.choice(_ANNOTATIONS)}",
            value=chance.choice(_NONSENSE),
        )
