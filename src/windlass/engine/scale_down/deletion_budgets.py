"""Deletion budgets: how many of the nodes that may go are let go now.

So many nodes at most are on their way out at the same time, and so many of them with pods to be moved. A group that is
all or nothing goes whole or not at all. Such groups come first, since others would always leave too little for them;
and the first of them may exceed what is left, since one larger than the limit could never go otherwise.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from windlass.engine import facts
from windlass.engine.scale_down.whole_groups import WholeGroups, is_whole
from windlass.engine.settings import Settings


@dataclass(frozen=True, slots=True)
class Bucket:
    """Nodes of one group that go, in their order."""

    group: str
    nodes: tuple[str, ...]
    batch_size: int = 0
    """All or nothing: how many nodes of the group must be ready to go before any does; 0: each goes by itself."""


@dataclass(frozen=True, slots=True)
class InProgress:
    """The nodes that are on their way out already."""

    empty: frozenset[str] = frozenset()
    drain: frozenset[str] = frozenset()

    @property
    def nodes(self) -> frozenset[str]:
        return self.empty | self.drain


NOTHING_IN_PROGRESS = InProgress()


@dataclass(frozen=True, slots=True)
class Started:
    """What starts now, by group: nodes without pods to be moved, and nodes to be drained."""

    empty: tuple[Bucket, ...] = ()
    drain: tuple[Bucket, ...] = ()


def crop(
    empty: Sequence[str],
    drain: Sequence[str],
    group_of: Mapping[str, facts.NodeGroup],
    registered: Mapping[str, int],
    in_progress: InProgress,
    settings: Settings,
) -> Started:
    """Let go what the budgets allow, in the order given. `registered` counts the nodes of each group that there are.

    Nodes without a group are passed over.
    """
    limits = settings.scale_down
    left = _Left(
        limits.max_scale_down_parallelism - len(in_progress.empty) - len(in_progress.drain),
        limits.max_drain_parallelism - len(in_progress.drain),
    )
    groups = {group_of[name].id: group_of[name] for name in (*empty, *drain) if name in group_of}
    whole_groups = WholeGroups(settings)
    whole = {id for id, group in groups.items() if whole_groups.has(group)}
    empty_of, drain_of = _by_group(empty, group_of), _by_group(drain, group_of)
    going = _take_whole([id for id in empty_of if id in whole], groups, registered, empty_of, drain_of, left, left.fits)
    left.drain = min(left.total, left.drain)
    rest = [id for id in drain_of if id in whole and id not in empty_of]
    going += _take_whole(rest, groups, registered, empty_of, drain_of, left, left.fits_drained)
    sizes = {id: len(empty_of.get(id, ())) + len(drain_of.get(id, ())) for id in going}
    whole_empty = [Bucket(id, tuple(empty_of[id]), sizes[id]) for id in going if id in empty_of]
    whole_drain = [Bucket(id, tuple(drain_of[id]), sizes[id]) for id in going if id in drain_of]
    plain_empty = _crop_plain(empty_of, whole, left.total)
    left.total -= sum(len(bucket.nodes) for bucket in plain_empty)
    plain_drain = _crop_plain(drain_of, whole, min(left.total, left.drain))
    return Started((*whole_empty, *plain_empty), (*whole_drain, *plain_drain))


@dataclass(slots=True)
class _Left:
    """What is left of the budgets while groups are taken one after another. Negative where more is in progress."""

    total: int
    drain: int
    may_overflow: bool = True

    def fits(self, empty: int, drain: int) -> bool:
        """Is there room for a whole group, or may it be the one that exceeds? If nothing is left, none may."""
        if self.total >= empty + drain and self.drain >= drain:
            return True
        return self.may_overflow and self.total != 0 and not (drain > 0 and self.drain == 0)

    def fits_drained(self, _empty: int, drain: int) -> bool:
        """The same for a group without empty nodes, once what is left for drains is no more than what is left."""
        return self.drain >= drain or (self.may_overflow and self.drain != 0)

    def take(self, empty: int, drain: int) -> None:
        self.total -= empty + drain
        self.drain -= drain
        self.may_overflow = False


ByGroup = Mapping[str, Sequence[str]]
"""Nodes by group id, groups in order of first appearance."""


def _by_group(names: Iterable[str], group_of: Mapping[str, facts.NodeGroup]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        if name in group_of:
            found.setdefault(group_of[name].id, []).append(name)
    return found


def _take_whole(
    ids: Iterable[str],
    groups: Mapping[str, facts.NodeGroup],
    registered: Mapping[str, int],
    empty_of: ByGroup,
    drain_of: ByGroup,
    left: _Left,
    fits: Callable[[int, int], bool],
) -> list[str]:
    """The groups that go, up to the first for which there is no room. One that would not go whole is passed over."""
    going = []
    for id in ids:
        empty, drain = len(empty_of.get(id, ())), len(drain_of.get(id, ()))
        if not fits(empty, drain):
            break
        if is_whole(groups[id], empty + drain, registered):
            left.take(empty, drain)
            going.append(id)
    return going


def _crop_plain(nodes_of: ByGroup, whole: Collection[str], budget: int) -> list[Bucket]:
    """As many nodes of other groups as the budget allows, group by group."""
    cropped: list[Bucket] = []
    for id, nodes in nodes_of.items():
        if id in whole:
            continue
        if budget < 1:
            break
        cropped.append(Bucket(id, tuple(nodes[:budget])))
        budget -= len(cropped[-1].nodes)
    return cropped
