"""Deletion budgets and atomic groups: how many of the removable nodes are deleted now.

Budgets limit the nodes being deleted at a time, and those with pods to evict. An atomic group (zero-or-max) goes
whole or not at all: all nodes of its target size or, as some may never have come, all that are registered. Atomic
groups come first, and the first of them may exceed the budgets: a group larger than the limit could never go
otherwise.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from windlass.engine.model import node_groups, scale_down_state
from windlass.engine.model.scale_down_state import NodeRemoval, UnremovableNode, UnremovableReason
from windlass.engine.model.settings import Settings, for_group


class AtomicGroups:
    """Which groups are atomic (ZeroOrMaxNodeScaling), cached by group."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: dict[str, bool] = {}

    def contains(self, group: node_groups.NodeGroup | None) -> bool:
        if group is None:
            return False
        if group.id not in self._known:
            self._known[group.id] = for_group(self._settings, group.options).zero_or_max
        return self._known[group.id]


def is_complete_group(group: node_groups.NodeGroup, going: int, registered: Mapping[str, int]) -> bool:
    """Whether `going` nodes are the whole group. `registered`: number of registered nodes by group."""
    return going in (group.target_size, registered.get(group.id, 0))


def split_atomic_groups(
    removals: Sequence[NodeRemoval],
    group_of: Mapping[str, node_groups.NodeGroup],
    registered: Mapping[str, int],
    settings: Settings,
) -> tuple[list[NodeRemoval], list[UnremovableNode]]:
    """Nodes to delete, those of complete atomic groups last; and nodes kept because their group is incomplete."""
    whole = AtomicGroups(settings)
    going: list[NodeRemoval] = []
    together: dict[str, list[NodeRemoval]] = {}
    for removal in removals:
        group = group_of.get(removal.node_name)
        if group is not None and whole.contains(group):
            together.setdefault(group.id, []).append(removal)
        else:
            going.append(removal)
    kept: list[UnremovableNode] = []
    for group_id, members in together.items():
        if is_complete_group(group_of[members[0].node_name], len(members), registered):
            going += members
        else:
            numbers = len(members), registered.get(group_id, 0)
            kept += [
                UnremovableNode(node_removal.node_name, UnremovableReason.ATOMIC_SCALE_DOWN_FAILED, *numbers)
                for node_removal in members
            ]
    return going, kept


@dataclass(frozen=True, slots=True)
class DeletionsInProgress:
    """Deletions already in progress."""

    empty: frozenset[str] = frozenset()
    drain: frozenset[str] = frozenset()

    @property
    def nodes(self) -> frozenset[str]:
        return self.empty | self.drain


NOTHING_IN_PROGRESS = DeletionsInProgress()


def crop_nodes(
    empty: Sequence[str],
    drain: Sequence[str],
    group_of: Mapping[str, node_groups.NodeGroup],
    registered: Mapping[str, int],
    in_progress: DeletionsInProgress,
    settings: Settings,
) -> scale_down_state.StartedDeletions:
    """Crop the nodes to the deletion budgets, in the order given. `registered`: number of registered nodes by group.

    Nodes without a group are passed over.
    """
    limits = settings.scale_down
    remaining = _RemainingBudget(
        limits.max_scale_down_parallelism - len(in_progress.empty) - len(in_progress.drain),
        limits.max_drain_parallelism - len(in_progress.drain),
    )
    groups = {group_of[name].id: group_of[name] for name in (*empty, *drain) if name in group_of}
    whole_groups = AtomicGroups(settings)
    whole = {id for id, group in groups.items() if whole_groups.contains(group)}
    empty_of, drain_of = _by_group(empty, group_of), _by_group(drain, group_of)
    going = _crop_atomic_groups(
        [id for id in empty_of if id in whole], groups, registered, empty_of, drain_of, remaining, remaining.fits
    )
    remaining.drain = min(remaining.total, remaining.drain)
    rest = [id for id in drain_of if id in whole and id not in empty_of]
    going += _crop_atomic_groups(rest, groups, registered, empty_of, drain_of, remaining, remaining.fits_drained)
    sizes = {id: len(empty_of.get(id, ())) + len(drain_of.get(id, ())) for id in going}
    whole_empty = [scale_down_state.NodeGroupView(id, tuple(empty_of[id]), sizes[id]) for id in going if id in empty_of]
    whole_drain = [scale_down_state.NodeGroupView(id, tuple(drain_of[id]), sizes[id]) for id in going if id in drain_of]
    plain_empty = _crop_groups(empty_of, whole, remaining.total)
    remaining.total -= sum(len(bucket.nodes) for bucket in plain_empty)
    plain_drain = _crop_groups(drain_of, whole, min(remaining.total, remaining.drain))
    return scale_down_state.StartedDeletions((*whole_empty, *plain_empty), (*whole_drain, *plain_drain))


@dataclass(slots=True)
class _RemainingBudget:
    """Remaining deletion budgets. Negative if more deletions are in progress."""

    total: int
    drain: int
    may_overflow: bool = True

    def fits(self, empty: int, drain: int) -> bool:
        """Whether a whole group fits, or may exceed the budget as the first one. None fits an exhausted budget."""
        if self.total >= empty + drain and self.drain >= drain:
            return True
        return self.may_overflow and self.total != 0 and not (drain > 0 and self.drain == 0)

    def fits_drained(self, _empty: int, drain: int) -> bool:
        """The same for a group without empty nodes, when the drain budget is the tighter one."""
        return self.drain >= drain or (self.may_overflow and self.drain != 0)

    def consume(self, empty: int, drain: int) -> None:
        self.total -= empty + drain
        self.drain -= drain
        self.may_overflow = False


NodesByGroup = Mapping[str, Sequence[str]]
"""Nodes by group id, groups in order of first appearance."""


def _by_group(names: Iterable[str], group_of: Mapping[str, node_groups.NodeGroup]) -> dict[str, list[str]]:
    names_by_group: dict[str, list[str]] = {}
    for name in names:
        if name in group_of:
            names_by_group.setdefault(group_of[name].id, []).append(name)
    return names_by_group


def _crop_atomic_groups(
    ids: Iterable[str],
    groups: Mapping[str, node_groups.NodeGroup],
    registered: Mapping[str, int],
    empty_of: NodesByGroup,
    drain_of: NodesByGroup,
    remaining: _RemainingBudget,
    fits: Callable[[int, int], bool],
) -> list[str]:
    """The atomic groups that fit, up to the first that does not. Incomplete groups are skipped."""
    going = []
    for id in ids:
        empty, drain = len(empty_of.get(id, ())), len(drain_of.get(id, ()))
        if not fits(empty, drain):
            break
        if is_complete_group(groups[id], empty + drain, registered):
            remaining.consume(empty, drain)
            going.append(id)
    return going


def _crop_groups(nodes_of: NodesByGroup, whole: Collection[str], budget: int) -> list[scale_down_state.NodeGroupView]:
    """As many nodes of non-atomic groups as the budget allows, group by group."""
    cropped: list[scale_down_state.NodeGroupView] = []
    for id, nodes in nodes_of.items():
        if id in whole:
            continue
        if budget < 1:
            break
        cropped.append(scale_down_state.NodeGroupView(id, tuple(nodes[:budget])))
        budget -= len(cropped[-1].nodes)
    return cropped
