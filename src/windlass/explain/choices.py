"""Choices: what the expanders chose between, and why this."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.engine.expanders import least_waste, pricing
from windlass.engine.expanders.option import Option
from windlass.engine.scale_up import proposing
from windlass.engine.story import Story
from windlass.explain import opinions


@dataclass(frozen=True, slots=True)
class OptionAccount:
    """One way to help pods, and the figures by which expanders compare."""

    group: str
    nodes: int
    pods: int
    waste: float
    """Least waste: the shares of cpu and of memory that would stay unused, added up."""
    price_per_hour: float | None = None
    """Of all its nodes; None where the group has no price."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one expander kept."""

    expander: str
    kept: tuple[str, ...]
    """Groups."""


@dataclass(frozen=True, slots=True)
class ChoiceAccount:
    """One round of scaling up."""

    winner: str
    options: tuple[OptionAccount, ...]
    steps: tuple[Step, ...]
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Groups that grow: from and to."""
    opinion: str = ""
    """What the user's own expander said, where it was its turn."""


@dataclass(frozen=True, slots=True)
class Past:
    """A choice that was carried out."""

    at_s: float
    choice: ChoiceAccount


def keep(past: Mapping[str, Past], story: Story) -> dict[str, Past]:
    """The last choice by group that grew for it, with what a loop chose."""
    kept = dict(past)
    for proposal in story.scale_ups:
        choice = describe(proposal)
        if choice is not None:
            kept |= dict.fromkeys(choice.sizes, Past(story.at_s, choice))
    return kept


def describe(proposal: proposing.Proposal) -> ChoiceAccount | None:
    """The choice of a round; None where there was nothing to choose."""
    choice = proposal.choice
    if choice is None or choice.winner is None:
        return None
    return ChoiceAccount(
        choice.winner.group,
        tuple(_measure(option) for option in choice.options),
        tuple(Step(expander, tuple(option.group for option in kept)) for expander, kept in choice.steps),
        {one.group.id: (one.group.size, one.new_size) for one in proposal.increases},
        "" if choice.opinion is None else opinions.say(choice.opinion),
    )


def _measure(option: Option) -> OptionAccount:
    price = option.template.annotations.get(pricing.ANNOTATION)
    total = None if price is None else float(price) * option.node_count
    return OptionAccount(option.group, option.node_count, option.pod_count, least_waste.waste(option), total)
