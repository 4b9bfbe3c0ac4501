"""Sizes that someone else puts back: a ClusterClass with `replicas` in its topology, GitOps, a script.

Each size written here then makes Machines that are deleted at once, or deletes some that are made anew, without end.
A group whose last two sizes written here were both undone within a while is contested: it is not raised, and backs off
as after any failure; none of its nodes is removed. After that it is tried once more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from windlass import clock, selectors
from windlass.engine import facts
from windlass.providers import base

CODE = "sizePutBack"
"""The reason of failed scale-ups, as metrics and status tell it."""
TIMES = 2
"""How many sizes in a row must be undone."""
_WITHIN_S = 900.0
"""What changes later than this after a size was written does not undo it: GitOps tools look every few minutes."""
_TRY_AGAIN_S = 1800.0
"""How long the nodes of a contested group are kept."""

_REMEDIES = (
    ("capi-topology", "remove replicas from the group's entry in Cluster.spec.topology.workers"),
    ("argocd", "add /spec/replicas to ignoreDifferences of the Argo CD Application"),
    ("kustomize-controller", "leave spec.replicas out of the manifests that Flux applies"),
    ("helm", "leave spec.replicas out of the chart's templates"),
)
_ANY_REMEDY = "leave spec.replicas out of what it applies"


@dataclass(frozen=True, slots=True)
class Size:
    """A number of replicas, and when it was so."""

    replicas: int
    resource_version: str


@dataclass(frozen=True, slots=True)
class _Written:
    """A size that was written here."""

    size: Size
    is_raised: bool
    at_s: float


class PutBacks:
    """What became of the sizes that were written here, by group."""

    def __init__(self, time: clock.Clock) -> None:
        self._clock = time
        self._written: dict[str, _Written] = {}
        self._undone: dict[str, int] = {}
        """How many in a row."""
        self._undone_at_s: dict[str, float] = {}
        self._is_told: set[str] = set()

    def note(self, id: str, before: int, size: Size) -> None:
        """A size was written over another."""
        if (written := self._written.get(id)) is not None:
            self._judge(id, before, written)
            if self._written.pop(id, None) is not None:  # it was still as it was written: nobody contests it
                self._undone.pop(id, None)
        if size.replicas != before:
            self._is_told.discard(id)
            self._written[id] = _Written(size, size.replicas > before, self._clock.monotonic_s())

    def look(self, id: str, seen: Size) -> None:
        """See whether the size of the group, as it is now, undoes what was written."""
        written = self._written.get(id)
        if written is not None and as_number(seen.resource_version) > as_number(written.size.resource_version):
            self._judge(id, seen.replicas, written)

    def _judge(self, id: str, replicas: int, written: _Written) -> None:
        now_s = self._clock.monotonic_s()
        if now_s >= written.at_s + _WITHIN_S:
            del self._written[id]
            self._undone.pop(id, None)
        elif _undoes(replicas, written):
            del self._written[id]
            self._undone[id] = self._undone.get(id, 0) + 1
            self._undone_at_s[id] = now_s

    def is_contested(self, id: str) -> bool:
        """Were the last sizes written here undone, and not too long ago?"""
        lately = self._clock.monotonic_s() < self._undone_at_s.get(id, float("-inf")) + _TRY_AGAIN_S
        return self._undone.get(id, 0) >= TIMES and lately

    def must_refuse(self, id: str) -> bool:
        """Is the group contested, and was that not said yet? Once it was, the next size is written all the same."""
        if not self.is_contested(id) or id in self._is_told:
            return False
        self._is_told.add(id)
        return True


def _undoes(replicas: int, written: _Written) -> bool:
    return replicas < written.size.replicas if written.is_raised else replicas > written.size.replicas


def find_owners(found: dict[str, Any], own: str) -> list[str]:
    """Which managers but our own hold `spec.replicas` of an object, by its managedFields."""
    return list(dict.fromkeys(name for name in _list_owners(found) if name != own))


def _list_owners(found: dict[str, Any]) -> Iterator[str]:
    for entry in (found.get("metadata") or {}).get("managedFields") or ():
        spec = (entry.get("fieldsV1") or {}).get("f:spec")
        if isinstance(spec, dict) and "f:replicas" in spec:
            yield str(entry.get("manager") or "")


def refuse(id: str, owners: list[str]) -> base.Refused:
    """Why the group is not resized, and what to do."""
    who = ", ".join(owners) or "another writer"
    remedy = next((text for name, text in _REMEDIES if any(name in owner for owner in owners)), _ANY_REMEDY)
    message = f"the size of {id} was put back twice by {who}, which owns spec.replicas: {remedy}"
    return base.Refused(facts.InstanceError("Other", CODE, message))


def as_number(resource_version: str) -> int:
    """So that versions of one object can be compared."""
    return selectors.parse_int64(resource_version) or 0
