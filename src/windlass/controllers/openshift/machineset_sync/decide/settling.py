"""Settling: one annotation that either side may write, on two objects of which one holds.

What the holder's side says counts, with one exception: what a known author wrote to the mirror since both were equal.
As with replicas, our own apply is the mark of what is known. A value on the holder's side that nobody but we own came
from the mirror, and goes when it goes there; any other that goes from the mirror comes back, since managedFields do not
tell who took it away.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Said:
    """What one object says."""

    value: str | None = None
    is_marked: bool = False
    is_authored: bool = False
    """Does the author own it?"""
    is_ours_alone: bool = False
    """Do we own it, and nobody else?"""


def settle(holder: Said, mirror: Said) -> str | None:
    """What both should say."""
    if holder.value == mirror.value:
        return holder.value
    if mirror.value is None:
        is_withdrawn = holder.is_marked and holder.is_ours_alone
        return None if is_withdrawn else holder.value
    is_news = mirror.is_authored and not mirror.is_marked
    if holder.value is None:
        return mirror.value if is_news else None
    is_old = holder.is_marked or not holder.is_authored
    return mirror.value if is_news and is_old else holder.value
