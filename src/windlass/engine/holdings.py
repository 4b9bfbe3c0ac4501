"""Holdings: which claims and disks the pods on each node hold.

Kept sparse, unlike other tallies: a claim is held on one node or a few, and a cluster has as many claims as pods that
use them, so that a row of counts over all nodes for each would be mostly zeros.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

from windlass.engine import facts


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that a pod uses, named by the pod or made for it."""

    namespace: str
    name: str
    volume: str = ""
    """Ephemeral: the pod's name of the volume that the claim was made for; empty where the pod names the claim."""
    pod_uid: str = ""
    """Ephemeral: the pod whose own the claim must be."""


Thing: TypeAlias = Claim | facts.Volume
"""A claim, or an inline disk as `disk` gives it."""


def disk(volume: facts.Volume) -> facts.Volume:
    """The volume without the name that its pod gives it: two pods that hold the same disk hold equal values."""
    return facts.Volume(
        "", volume.source, read_only=volume.read_only, identity=volume.identity, driver=volume.driver,
        handle=volume.handle,
    )  # fmt: skip


def claim(namespace: str, volume: facts.Volume) -> Claim:
    """The claim that a pod of this namespace uses by this volume."""
    if volume.source == "ephemeral":
        return Claim(namespace, volume.claim, volume.name, volume.pod_uid)
    return Claim(namespace, volume.claim)


def of_pod(namespace: str, spec: facts.PodSpec) -> tuple[Thing, ...]:
    """What a pod holds by its own spec; something that it names twice is listed twice."""
    return tuple(
        claim(namespace, volume) if volume.claim else disk(volume)
        for volume in spec.volumes
        if volume.claim or volume.identity
    )


class Holdings:
    """How many pods hold what, and where."""

    def __init__(self) -> None:
        self.touched: set[int] = set()
        """Nodes on which something changed; whoever keeps counts per node takes them out."""
        self._rows: dict[Thing, dict[int, int]] = {}
        self._things: dict[int, dict[Thing, int]] = {}
        self._disks: dict[str, set[facts.Volume]] = {}

    def add(self, thing: Thing, row: int, pods: int) -> None:
        """`pods` more pods (fewer, if negative) hold it on a node."""
        rows = self._rows.setdefault(thing, {})
        count = rows[row] = rows.get(row, 0) + pods
        things = self._things.setdefault(row, {})
        if count:
            things[thing] = count
        else:
            del rows[row]
            things.pop(thing, None)
        if isinstance(thing, facts.Volume):
            self._list_disk(thing)
        if not rows:
            del self._rows[thing]
        self.touched.add(row)

    def clear(self, row: int) -> None:
        """The node is cut off, whatever pods held on it."""
        for thing, count in list(self._things.get(row, {}).items()):
            self.add(thing, row, -count)

    def rows(self, thing: Thing) -> Collection[int]:
        """The nodes on which pods hold it."""
        return self._rows.get(thing, {}).keys()

    def things(self, row: int) -> Collection[Thing]:
        """What pods on a node hold."""
        return self._things.get(row, {}).keys()

    def nodes(self) -> Collection[int]:
        """The nodes on which something is held, or was."""
        return self._things.keys()

    def disks(self, source: str) -> Collection[facts.Volume]:
        """Inline disks of a source that some pod holds somewhere."""
        return self._disks.get(source, set())

    def _list_disk(self, found: facts.Volume) -> None:
        disks = self._disks.setdefault(found.source, set())
        if self._rows[found]:
            disks.add(found)
        else:
            disks.discard(found)
