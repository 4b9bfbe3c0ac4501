"""The expander chain of --expander, and the strategies random, most-pods, least-waste and least-nodes.

Each strategy keeps the best options of those that the ones before it left; random takes one of the rest.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic

import numpy as np

from windlass.engine.expanders import grpc, price, priority
from windlass.engine.model import facts, scale_up_status, well_known
from windlass.engine.model.scale_up_status import ExpansionOption
from windlass.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class ExpanderContext:
    """All that strategies may look at besides the options."""

    rng: np.random.Generator
    rules: tuple[priority.PriorityRule, ...] = ()
    """The user's priorities; empty where there are none, or none that can be used."""
    pricing: price.PricingModel | None = None
    cluster_nodes: int = 0
    gpu_label: str = well_known.CLUSTER_API_GPU_LABEL
    desk: grpc.ExpanderClientPort = field(default_factory=grpc.ExpanderClientPort)
    """Where someone outside can be asked."""


@dataclass(frozen=True, slots=True)
class ExpanderFilter(Generic[scale_up_status.Candidate]):
    """A strategy by its name in --expander."""

    name: str
    best_options: Callable[[Sequence[scale_up_status.Candidate]], Sequence[scale_up_status.Candidate]]


def _make_price_filter(situation: ExpanderContext) -> Callable[[Sequence[ExpansionOption]], Sequence[ExpansionOption]]:
    if situation.pricing is None:
        raise InvalidInput("--expander: price needs prices, and none are configured")
    return functools.partial(
        price.find_best_options,
        pricing=situation.pricing,
        cluster_nodes=situation.cluster_nodes,
        gpu_label=situation.gpu_label,
    )


GRPC = "grpc"
"""The strategy that is not ours."""

RANDOM = "random"
"""The strategy after which there is nothing left to narrow."""


def check_names(names: Sequence[str]) -> None:
    """InvalidInput unless the names make a chain in which every strategy is known, named once and can be reached."""
    for position, name in enumerate(names):
        if name not in STRATEGIES:
            raise InvalidInput(f"--expander: unknown expander {name!r}; accepted are {', '.join(STRATEGIES)}")
        if name in names[:position]:
            raise InvalidInput(f"--expander: {name} is named twice; each of {', '.join(STRATEGIES)} may be named once")
        if RANDOM in names[:position]:
            raise InvalidInput(f"--expander: {name} after {RANDOM} is never asked; {RANDOM} must be the last")


def build_chain(names: Sequence[str], situation: ExpanderContext) -> list[ExpanderFilter[ExpansionOption]]:
    """The strategies of --expander, in its order."""
    check_names(names)
    return [ExpanderFilter(name, STRATEGIES[name](situation)) for name in names]


def run_chain(
    options: Sequence[scale_up_status.Candidate],
    strategies: Sequence[ExpanderFilter[scale_up_status.Candidate]],
    fallback: ExpanderFilter[scale_up_status.Candidate],
) -> scale_up_status.ExpanderChoice[scale_up_status.Candidate]:
    """The option that is left when each strategy has narrowed the options, or that the fallback takes of the rest."""
    steps: list[tuple[str, tuple[scale_up_status.Candidate, ...]]] = []
    left = tuple(options)
    for strategy in (*strategies, fallback):
        left = tuple(strategy.best_options(left))
        steps.append((strategy.name, left))
        if len(left) == 1:
            break
    return scale_up_status.ExpanderChoice(left[0] if left else None, tuple(steps), tuple(options))


def choose_option(
    options: Sequence[ExpansionOption], names: Sequence[str], situation: ExpanderContext
) -> scale_up_status.ExpanderChoice[ExpansionOption]:
    """The option that the expanders named choose, ties drawn at random."""
    (fallback,) = build_chain([RANDOM], situation)
    choice = run_chain(options, build_chain(names, situation), fallback)
    shown = choice.options_given_to(GRPC)
    return choice if shown is None else replace(choice, opinion=situation.desk.find_response(shown))


def find_least_nodes(options: Sequence[ExpansionOption]) -> list[ExpansionOption]:
    adding = [option for option in options if option.node_count != 0]
    least = min((option.node_count for option in adding), default=0)
    return [option for option in adding if option.node_count == least]


def find_least_waste(options: Sequence[ExpansionOption]) -> list[ExpansionOption]:
    scored = [(wasted_fraction(option), option) for option in options]
    least = min((score for score, _ in scored), default=0.0)
    return [option for score, option in scored if score == least]


def wasted_fraction(option: ExpansionOption) -> float:
    """From 0, all used, to 2, nothing used; negative where more is asked for than the capacity shows."""
    return _wasted_fraction_of(option, facts.CPU) + _wasted_fraction_of(option, facts.MEMORY)


def _wasted_fraction_of(option: ExpansionOption, resource: str) -> float:
    available = dict(option.template.capacity).get(resource, 0) * option.node_count
    requested = sum(dict(helped.pod.spec.requests).get(resource, 0) * helped.count for helped in option.pods)
    return (available - requested) / available if available else 0.0


def find_most_pods(options: Sequence[ExpansionOption]) -> list[ExpansionOption]:
    most = max((option.pod_count for option in options), default=0)
    return [option for option in options if option.pod_count == most]


def pick_random(options: Sequence[ExpansionOption], rng: np.random.Generator) -> list[ExpansionOption]:
    """One of the options; none of none."""
    if not options:
        return []
    return [options[int(rng.integers(len(options)))]]


STRATEGIES: Mapping[
    str, Callable[[ExpanderContext], Callable[[Sequence[ExpansionOption]], Sequence[ExpansionOption]]]
] = {
    "random": lambda situation: functools.partial(pick_random, rng=situation.rng),
    "most-pods": lambda _: find_most_pods,
    "least-waste": lambda _: find_least_waste,
    "least-nodes": lambda _: find_least_nodes,
    "price": _make_price_filter,
    "priority": lambda situation: functools.partial(priority.find_best_options, rules=situation.rules),
    "grpc": lambda situation: functools.partial(grpc.find_best_options, desk=situation.desk),
}
"""Every strategy by its name in --expander."""
