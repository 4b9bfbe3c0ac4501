"""Drains: how far a node is on its way out, and what it waits for."""

from dataclasses import dataclass

from windlass.engine.draining.story import DrainStory
from windlass.engine.memory import DrainBegun


@dataclass(frozen=True, slots=True)
class DrainAccount:
    """One node on its way out."""

    group: str
    since_s: float
    phase: str
    """What it waits for; see `engine.draining.story.Phase`."""
    until_s: float | None = None
    """When it moves on or gives up, if nothing changes before."""
    waits_for: tuple[str, ...] = ()
    """Pods, annotations or nodes."""
    refused: tuple[str, ...] = ()
    """What was said where evictions were refused."""
    failure: str = ""
    """Why it is given up, where it is."""
    details: tuple[str, ...] = ()


def describe(begun: DrainBegun, told: DrainStory | None) -> DrainAccount:
    """How a drain stands. `told`: what its next step says of it."""
    failure = begun.progress.failure if told is None else told.failure
    evicting = begun.progress.evicting
    return DrainAccount(
        begun.group,
        begun.since_s,
        str(told.phase) if told else "on its way",
        None if told is None or told.until_s == float("inf") else told.until_s,
        told.waits_for if told else (),
        tuple(evicting.refused.values()) if evicting else (),
        str(failure.why) if failure else "",
        failure.details if failure else (),
    )
