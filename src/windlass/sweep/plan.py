"""The plan: every run there will be, known before the first begins. The first settings are always the current ones."""

import hashlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from windlass import errors
from windlass.autoscaler import flag_help, flags
from windlass.simulator.scenario import model
from windlass.sweep import identity, trying, worlds

Flags = Mapping[str, str]
"""Texts by name of flag."""

_MOST_RUNS = 100_000
_DRAWS = 50
"""Rounds of drawing after which a space is taken to have no further settings."""


@dataclass(frozen=True, slots=True, order=True)
class Task:
    """One run: which settings, which seed."""

    settings: int
    seed: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What is played. The same arguments make the same plan."""

    world: worlds.World
    tried: tuple[str, ...]
    """Flags that are tried, in the order in which they were named."""
    settings: tuple[Flags, ...]
    """Flags on top of the scenario's; the first are none."""
    seeds: tuple[int, ...]

    @property
    def tasks(self) -> list[Task]:
        return [Task(number, seed) for number in range(len(self.settings)) for seed in self.seeds]

    def spell(self, number: int, flag: str) -> str:
        """What a flag is in these settings."""
        given = {**spell_flags(self.world.scenario), **self.settings[number]}
        if flag in given:
            return given[flag]
        found = {**flags.FLAGS, **flags.WIRING}.get(flag)
        return "windlass" if found is None else _shorten(found)

    @property
    def fingerprint(self) -> str:
        """Tells plans apart, and programs that would play them otherwise."""
        told = [worlds.digest(self.world), self.tried, [dict(one) for one in self.settings], self.seeds]
        return hashlib.sha256(msgspec.json.encode([identity.find(), told])).hexdigest()


def make(world: worlds.World, axes: Sequence[trying.Axis], seeds: int, runs: int | None) -> Plan:
    """Every combination, or as many drawn at random as `runs` allow. InvalidInput for what cannot be played."""
    if seeds < 1:
        raise errors.InvalidInput(f"--seeds: found {seeds}, accepted is 1 or more")
    if runs is not None and runs < 2 * seeds:
        said = f"the current settings and one other with each of {seeds} seeds"
        raise errors.InvalidInput(f"--runs: found {runs}, accepted is {2 * seeds} or more: {said}")
    first = world.scenario.seed
    found = _every(axes, seeds) if runs is None else _draw(axes, runs // seeds - 1, first)
    chosen = _leave_out_same(world.scenario, found)
    if len(chosen) < 2:
        raise errors.InvalidInput("--try: found nothing but the current settings, accepted are others")
    return Plan(world, tuple(axis.flag for axis in axes), tuple(chosen), tuple(range(first, first + seeds)))


def _every(axes: Sequence[trying.Axis], seeds: int) -> Iterator[Flags]:
    for axis in axes:
        if axis.grid is None:
            said = "a range with steps, like 1m..20m:5, or --runs for a random search"
            raise errors.InvalidInput(f"--try --{axis.flag}: found a range without steps, accepted is {said}")
    count = math.prod(len(axis.grid or ()) for axis in axes) * seeds
    if count > _MOST_RUNS:
        raise errors.InvalidInput(
            f"--try: found {count:,} runs, accepted are {_MOST_RUNS:,}; --runs draws some of them"
        )
    return _combine(axes)


def _combine(axes: Sequence[trying.Axis]) -> Iterator[Flags]:
    names = [axis.flag for axis in axes]
    for values in itertools.product(*(axis.grid or () for axis in axes)):
        yield dict(zip(names, values, strict=True))


def _draw(axes: Sequence[trying.Axis], count: int, seed: int) -> Iterator[Flags]:
    """So many different ones; every combination if there are no more. Each round covers each axis evenly."""
    if count * 2 > _MOST_RUNS:
        raise errors.InvalidInput(f"--runs: found more than {_MOST_RUNS:,}, accepted is less")
    sizes = [len(axis.grid) for axis in axes if axis.grid is not None]
    if len(sizes) == len(axes) and math.prod(sizes) <= count:
        yield from _combine(axes)
        return
    chance, seen = np.random.default_rng(seed), set[tuple[str, ...]]()
    for _ in range(_DRAWS):
        strata = [(chance.permutation(count) + chance.random(count)) / count for _ in axes]
        for shares in zip(*strata, strict=True):
            values = tuple(axis.pick(float(share)) for axis, share in zip(axes, shares, strict=True))
            if values not in seen and len(seen) < count:
                seen.add(values)
                yield dict(zip((axis.flag for axis in axes), values, strict=True))


def _leave_out_same(scenario: model.Scenario, found: Iterator[Flags]) -> list[Flags]:
    """The current settings, and those found that decide otherwise than all before. InvalidInput as the autoscaler's."""
    written, seen, chosen = spell_flags(scenario), set[object](), list[Flags]()
    for given in itertools.chain([{}], found):
        both = {**written, **given}
        meant = flags.read_flags(both), flags.read_wiring(both)
        if meant not in seen:
            seen.add(meant)
            chosen.append(given)
    return chosen


def spell_flags(scenario: model.Scenario) -> dict[str, str]:
    """A scenario's flags as text."""
    return {name: model.spell_flag(value) for name, value in scenario.flags.items()}


def _shorten(flag: flags.Flag) -> str:
    if isinstance(flag.default, float) and flag.field.endswith("_s"):
        return trying.spell_duration(flag.default)
    return flag_help.spell(flag.read, flag.default)
