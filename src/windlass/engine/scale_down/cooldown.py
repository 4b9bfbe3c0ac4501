"""Scale-down cooldown: no node is removed for a while after a scale-up, a deletion or a failed deletion.

The delays hold for the whole cluster or, with --scale-down-delay-type-local, for the group only.
"""

from collections.abc import Iterable, Mapping, Sequence

from windlass.engine.model import node_groups, scale_down_state
from windlass.engine.model.settings import ScaleDownSettings


def cooldown_ends_at_s(activity: scale_down_state.ScaleActivity, settings: ScaleDownSettings) -> float:
    """When scale-down may start again, inclusive; -inf if no event started a cooldown."""
    return max(_cooldown_ends(activity, settings), default=float("-inf"))


def _cooldown_ends(activity: scale_down_state.ScaleActivity, settings: ScaleDownSettings) -> Iterable[float]:
    if activity.added_s is not None:
        yield activity.added_s + settings.scale_down_delay_after_add_s
    if activity.deleted_s is not None:
        yield activity.deleted_s + settings.scale_down_delay_after_delete_s
    if activity.failed_s is not None:
        yield activity.failed_s + settings.scale_down_delay_after_failure_s


def filter_cooling_down(
    names: Sequence[str],
    group_of: Mapping[str, node_groups.NodeGroup],
    activities: Mapping[str, scale_down_state.ScaleActivity],
    settings: ScaleDownSettings,
    now_s: float,
) -> list[str]:
    """The nodes whose groups are not cooling down. `activities` goes by group id."""
    cooling = {group for group, activity in activities.items() if cooldown_ends_at_s(activity, settings) > now_s}
    if not cooling:
        return list(names)
    return [name for name in names if (group := group_of.get(name)) is None or group.id not in cooling]
