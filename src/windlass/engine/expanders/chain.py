"""The chain: strategies asked one after another, each narrowing what the one before it kept.

The first strategy that leaves a single option has decided. If several are left in the end, one is drawn at random; if
none is left, nothing is chosen: a strategy that drops an option means it.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np

from windlass.engine import gpus
from windlass.engine.expanders import least_nodes, least_waste, most_pods, outside, price, priority, random
from windlass.engine.expanders.option import Option
from windlass.errors import InvalidInput

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Situation:
    """All that strategies may look at besides the options."""

    rng: np.random.Generator
    rules: tuple[priority.Rule, ...] = ()
    """The user's priorities; empty where there are none, or none that can be used."""
    pricing: price.Pricing | None = None
    cluster_nodes: int = 0
    gpu_label: str = gpus.CLUSTER_API_LABEL
    desk: outside.Desk = field(default_factory=outside.Desk)
    """Where someone outside can be asked."""


@dataclass(frozen=True, slots=True)
class Strategy(Generic[T]):
    """A strategy by its name in --expander."""

    name: str
    keep: Callable[[Sequence[T]], Sequence[T]]


def _price(situation: Situation) -> Callable[[Sequence[Option]], Sequence[Option]]:
    if situation.pricing is None:
        raise InvalidInput("--expander: price needs prices, and none are configured")
    return functools.partial(
        price.keep,
        pricing=situation.pricing,
        cluster_nodes=situation.cluster_nodes,
        gpu_label=situation.gpu_label,
    )


STRATEGIES: Mapping[str, Callable[[Situation], Callable[[Sequence[Option]], Sequence[Option]]]] = {
    "random": lambda situation: functools.partial(random.keep, rng=situation.rng),
    "most-pods": lambda _: most_pods.keep,
    "least-waste": lambda _: least_waste.keep,
    "least-nodes": lambda _: least_nodes.keep,
    "price": _price,
    "priority": lambda situation: functools.partial(priority.keep, rules=situation.rules),
    "grpc": lambda situation: functools.partial(outside.keep, desk=situation.desk),
}
"""Every strategy by its name in --expander."""

OUTSIDE = "grpc"
"""The strategy that is not ours."""

ALWAYS_ONE = "random"
"""The strategy after which there is nothing left to narrow."""


def check_names(names: Sequence[str]) -> None:
    """InvalidInput unless the names make a chain in which every strategy is known, named once and can be reached."""
    for position, name in enumerate(names):
        if name not in STRATEGIES:
            raise InvalidInput(f"--expander: unknown expander {name!r}; accepted are {', '.join(STRATEGIES)}")
        if name in names[:position]:
            raise InvalidInput(f"--expander: {name} is named twice; each of {', '.join(STRATEGIES)} may be named once")
        if ALWAYS_ONE in names[:position]:
            raise InvalidInput(f"--expander: {name} after {ALWAYS_ONE} is never asked; {ALWAYS_ONE} must be the last")


def build(names: Sequence[str], situation: Situation) -> list[Strategy[Option]]:
    """The strategies of --expander, in its order."""
    check_names(names)
    return [Strategy(name, STRATEGIES[name](situation)) for name in names]


@dataclass(frozen=True, slots=True)
class Choice(Generic[T]):
    """What was chosen, what each strategy that was asked kept, and of what."""

    winner: T | None
    steps: tuple[tuple[str, tuple[T, ...]], ...]
    options: tuple[T, ...] = ()
    opinion: outside.Opinion | None = None
    """What someone outside said, where it was their turn."""

    def given_to(self, name: str) -> tuple[T, ...] | None:
        """What a strategy had to choose from; None if it was not asked."""
        before = self.options
        for asked, kept in self.steps:
            if asked == name:
                return before
            before = kept
        return None


def choose(options: Sequence[T], strategies: Sequence[Strategy[T]], fallback: Strategy[T]) -> Choice[T]:
    """The option that is left when each strategy has narrowed the options, or that the fallback takes of the rest."""
    steps: list[tuple[str, tuple[T, ...]]] = []
    left = tuple(options)
    for strategy in (*strategies, fallback):
        left = tuple(strategy.keep(left))
        steps.append((strategy.name, left))
        if len(left) == 1:
            break
    return Choice(left[0] if left else None, tuple(steps), tuple(options))


def choose_option(options: Sequence[Option], names: Sequence[str], situation: Situation) -> Choice[Option]:
    """The option that the expanders named choose, ties drawn at random."""
    (fallback,) = build([ALWAYS_ONE], situation)
    choice = choose(options, build(names, situation), fallback)
    shown = choice.given_to(OUTSIDE)
    return choice if shown is None else replace(choice, opinion=situation.desk.consult(shown))
