"""Whole groups: groups that are all or nothing go whole or not at all.

Whole is a group of which all nodes go that it should have or, since some may never have come, all that it has.
"""

from collections.abc import Mapping, Sequence

from windlass.engine import facts
from windlass.engine.scale_down.kept import Kept
from windlass.engine.scale_down.removal import Removal, Unremovable
from windlass.engine.settings import Settings, for_group


class WholeGroups:
    """Which groups are all or nothing; looked up once for each."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: dict[str, bool] = {}

    def has(self, group: facts.NodeGroup | None) -> bool:
        if group is None:
            return False
        if group.id not in self._known:
            self._known[group.id] = for_group(self._settings, group.options).zero_or_max
        return self._known[group.id]


def is_whole(group: facts.NodeGroup, going: int, registered: Mapping[str, int]) -> bool:
    """Would so many nodes be all of the group? `registered` counts the nodes of each group that there are."""
    return going in (group.target_size, registered.get(group.id, 0))


def split(
    removals: Sequence[Removal],
    group_of: Mapping[str, facts.NodeGroup],
    registered: Mapping[str, int],
    settings: Settings,
) -> tuple[list[Removal], list[Kept]]:
    """Those that may go, nodes of whole groups last; and the nodes that stay because not all of their group may go."""
    whole = WholeGroups(settings)
    going: list[Removal] = []
    together: dict[str, list[Removal]] = {}
    for removal in removals:
        group = group_of.get(removal.node_name)
        if group is not None and whole.has(group):
            together.setdefault(group.id, []).append(removal)
        else:
            going.append(removal)
    kept: list[Kept] = []
    for group_id, members in together.items():
        if is_whole(group_of[members[0].node_name], len(members), registered):
            going += members
        else:
            numbers = len(members), registered.get(group_id, 0)
            kept += [Kept(one.node_name, Unremovable.ATOMIC_SCALE_DOWN_FAILED, *numbers) for one in members]
    return going, kept
