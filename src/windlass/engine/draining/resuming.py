"""Resuming: what was asked for last may never have been heard, if whoever asked is gone.

It is remembered before it is done, so that nobody does it twice without knowing. Whoever takes over cannot tell whether
it was done, and asks at once for everything of which nothing can be seen: asking twice does no harm.
"""

from collections.abc import Mapping
from dataclasses import replace

from windlass.engine.draining.progress import NO_TURN, Progress
from windlass.engine.memory import DrainBegun


def resume(drains: Mapping[str, DrainBegun]) -> dict[str, DrainBegun]:
    """The drains that another process left, to be gone on with."""
    return {name: replace(begun, progress=_forget_asking(begun.progress)) for name, begun in drains.items()}


def _forget_asking(progress: Progress) -> Progress:
    evicting = progress.evicting
    if evicting is not None:
        evicting = replace(evicting, tried={}, refused={})
        if evicting.accepted_s is None:  # the turn begins anew: each of its pods is asked before time is up
            evicting = replace(evicting, stage=NO_TURN)
    is_marking = progress.marked_s is None and progress.failure is None
    return replace(
        progress,
        asked_s=None if is_marking else progress.asked_s,
        evicting=evicting,
        may_be_unheard=progress.deleting_s is not None,
        undone_s=None,
    )
