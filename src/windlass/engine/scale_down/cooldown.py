"""Cooldown: after a change nothing is removed for a while, because its effects are still to come.

After nodes were added, their load may not have settled; after a removal began, and after one failed, what follows
should be seen first. The pauses hold for the whole cluster or, with --scale-down-delay-type-local, for the group only.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from windlass.engine import facts
from windlass.engine.settings import ScaleDown


@dataclass(frozen=True, slots=True)
class Activity:
    """When something last happened, to the cluster or to one group; None where it never did."""

    added_s: float | None = None
    deleted_s: float | None = None
    """In the cluster: when a removal was begun. In a group: when one was carried out, which is some seconds later."""
    failed_s: float | None = None


def ends_at_s(activity: Activity, settings: ScaleDown) -> float:
    """When removing may begin again; before all time if nothing happened. At that very moment it may."""
    return max(_ends(activity, settings), default=float("-inf"))


def _ends(activity: Activity, settings: ScaleDown) -> Iterable[float]:
    if activity.added_s is not None:
        yield activity.added_s + settings.scale_down_delay_after_add_s
    if activity.deleted_s is not None:
        yield activity.deleted_s + settings.scale_down_delay_after_delete_s
    if activity.failed_s is not None:
        yield activity.failed_s + settings.scale_down_delay_after_failure_s


def leave_out(
    names: Sequence[str],
    group_of: Mapping[str, facts.NodeGroup],
    activities: Mapping[str, Activity],
    settings: ScaleDown,
    now_s: float,
) -> list[str]:
    """The nodes whose groups are not cooling down. `activities` goes by group id."""
    cooling = {group for group, activity in activities.items() if ends_at_s(activity, settings) > now_s}
    if not cooling:
        return list(names)
    return [name for name in names if (group := group_of.get(name)) is None or group.id not in cooling]
