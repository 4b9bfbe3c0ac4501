"""Expander chain: the strategies of --expander in order, each narrowing what the one before it kept.

The first strategy that leaves a single option decides. If several options are left at the end, one is drawn at random.
If none is left, no option is chosen: a strategy that drops an option excludes it.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic

import numpy as np

from windlass.engine.expanders import grpc, least_nodes, least_waste, most_pods, price, priority, random
from windlass.engine.model import scale_up_status, well_known
from windlass.engine.model.scale_up_status import ExpansionOption
from windlass.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class ExpanderContext:
    """The inputs of strategies besides the options."""

    rng: np.random.Generator
    rules: tuple[priority.PriorityRule, ...] = ()
    """Rules of the priority ConfigMap; empty without a ConfigMap or with an unusable one."""
    pricing: price.PricingModel | None = None
    cluster_nodes: int = 0
    gpu_label: str = well_known.CLUSTER_API_GPU_LABEL
    client: grpc.ExpanderClientPort = field(default_factory=grpc.ExpanderClientPort)
    """Responses of the external gRPC expander."""


@dataclass(frozen=True, slots=True)
class ExpanderFilter(Generic[scale_up_status.Candidate]):
    """A strategy and its name in --expander."""

    name: str
    best_options: Callable[[Sequence[scale_up_status.Candidate]], Sequence[scale_up_status.Candidate]]


def _make_price_filter(context: ExpanderContext) -> Callable[[Sequence[ExpansionOption]], Sequence[ExpansionOption]]:
    if context.pricing is None:
        raise InvalidInput("--expander: price needs prices, and none are configured")
    return functools.partial(
        price.find_best_options,
        pricing=context.pricing,
        cluster_nodes=context.cluster_nodes,
        gpu_label=context.gpu_label,
    )


STRATEGIES: Mapping[
    str, Callable[[ExpanderContext], Callable[[Sequence[ExpansionOption]], Sequence[ExpansionOption]]]
] = {
    "random": lambda context: functools.partial(random.find_best_options, rng=context.rng),
    "most-pods": lambda _: most_pods.find_best_options,
    "least-waste": lambda _: least_waste.find_best_options,
    "least-nodes": lambda _: least_nodes.find_best_options,
    "price": _make_price_filter,
    "priority": lambda context: functools.partial(priority.find_best_options, rules=context.rules),
    "grpc": lambda context: functools.partial(grpc.find_best_options, client=context.client),
}
"""Every strategy by its name in --expander."""

GRPC = "grpc"
"""The strategy that an external server implements."""

RANDOM = "random"
"""The strategy that always leaves one option, so a strategy after it has no effect. Also breaks ties."""


def check_names(names: Sequence[str]) -> None:
    """InvalidInput unless every name is a strategy, occurs once, and none follows `random`."""
    for position, name in enumerate(names):
        if name not in STRATEGIES:
            raise InvalidInput(f"--expander: unknown expander {name!r}; accepted are {', '.join(STRATEGIES)}")
        if name in names[:position]:
            raise InvalidInput(f"--expander: {name} is named twice; each of {', '.join(STRATEGIES)} may be named once")
        if RANDOM in names[:position]:
            raise InvalidInput(f"--expander: {name} after {RANDOM} has no effect; {RANDOM} must be the last")


def build_chain(names: Sequence[str], context: ExpanderContext) -> list[ExpanderFilter[ExpansionOption]]:
    """The strategies of --expander, in its order."""
    check_names(names)
    return [ExpanderFilter(name, STRATEGIES[name](context)) for name in names]


def run_chain(
    options: Sequence[scale_up_status.Candidate],
    strategies: Sequence[ExpanderFilter[scale_up_status.Candidate]],
    fallback: ExpanderFilter[scale_up_status.Candidate],
) -> scale_up_status.ExpanderChoice[scale_up_status.Candidate]:
    """The option left after all strategies and the fallback, with the options that each strategy kept."""
    steps: list[tuple[str, tuple[scale_up_status.Candidate, ...]]] = []
    remaining = tuple(options)
    for strategy in (*strategies, fallback):
        remaining = tuple(strategy.best_options(remaining))
        steps.append((strategy.name, remaining))
        if len(remaining) == 1:
            break
    return scale_up_status.ExpanderChoice(remaining[0] if remaining else None, tuple(steps), tuple(options))


def choose_option(
    options: Sequence[ExpansionOption], names: Sequence[str], context: ExpanderContext
) -> scale_up_status.ExpanderChoice[ExpansionOption]:
    """The option that the named strategies choose; ties are drawn at random. With the gRPC expander's response."""
    (fallback,) = build_chain([RANDOM], context)
    choice = run_chain(options, build_chain(names, context), fallback)
    shown = choice.options_given_to(GRPC)
    return choice if shown is None else replace(choice, opinion=context.client.find_response(shown))
