"""Likeness: pods with claims of their own are alike if the claims ask for the same.

Every such pod is a shape of its own, because its claims have names. Whoever places pods takes those that are alike
together: the shape of any of them speaks for all, as long as its claims are not allocated.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

from windlass.engine.devices import asking
from windlass.engine.devices.table import DeviceTable
from windlass.engine.shapes import Shape

if TYPE_CHECKING:
    from windlass.engine.snapshot import Snapshot


def of_shapes(snapshot: "Snapshot", shape_ids: Iterable[int]) -> list[int]:
    """For every shape, the first of those that are alike."""
    first: dict[Hashable, int] = {}
    return [_first(snapshot, number, first) for number in shape_ids]


def _first(snapshot: "Snapshot", number: int, first: dict[Hashable, int]) -> int:
    shape = snapshot.shapes[number]
    if not shape.spec.claims:
        return number
    key = _key(snapshot.devices, shape)
    return number if key is None else first.setdefault(key, number)


def of_pods(snapshot: "Snapshot", rows: Sequence[int]) -> dict[int, Hashable]:
    """By row, for pods with claims that can be alike: equal if they are, and of one owner."""
    found: dict[int, Hashable] = {}
    for row in rows:
        shape = snapshot.shape_of_row(row)
        if shape.spec.claims:
            key = _key(snapshot.devices, shape)
            if key is not None:
                kind = snapshot.pods.kind(row)
                found[row] = (key, kind.owner, kind.annotations, kind.scheduler)
    return found


def _key(table: DeviceTable, shape: Shape) -> Hashable | None:
    """None for a pod that is like no other: it has a claim already, shares one, or must wait."""
    ask = table.ask(shape.namespace, shape.spec)
    if isinstance(ask, asking.Refused) or ask.allocated or not ask.is_private:
        return None
    return shape.profile_id, shape.spec.without_claims(), tuple(spec for _, spec in ask.missing)
