"""No node over capacity: what its pods ask for, all together, is there."""

from collections.abc import Iterator
from typing import Any

from windlass.simulator.checks import reading
from windlass.simulator.checks.violation import Finding
from windlass.simulator.world import kinds
from windlass.simulator.world.api import Change
from windlass.simulator.world.remembering import Remembered

Json = dict[str, Any]


class Capacity:
    """What each node has, and what its pods take."""

    rule = "no node over capacity"

    def __init__(self) -> None:
        self._has: dict[str, dict[str, int]] = {}
        self._taken: dict[str, dict[str, int]] = {}
        self._seats: dict[str, tuple[str, dict[str, int]]] = {}
        self._touched: dict[str, None] = {}
        self._known: Remembered[dict[str, int]] = Remembered()

    def hear(self, change: Change) -> Iterator[Finding]:
        if change.kind == kinds.NODES:
            if change.now is None:
                self._has.pop(change.key, None)
            elif change.before is None or change.before["status"] is not change.now["status"]:
                self._has[change.key] = reading.amounts(change.now["status"].get("allocatable"))
                self._touched[change.key] = None
        elif change.kind == kinds.PODS:
            self._hear_pod(change)
        yield from ()

    def _hear_pod(self, change: Change) -> None:
        pod = change.now
        is_here = pod is not None and bool(pod["spec"].get("nodeName")) and not reading.has_ended(pod)
        if is_here == (change.key in self._seats):
            return
        if pod is not None and is_here:
            seat = self._seats[change.key] = (pod["spec"]["nodeName"], self._asked(pod))
            self._add(*seat, 1)
        else:
            self._add(*self._seats.pop(change.key), -1)

    def _asked(self, pod: Json) -> dict[str, int]:
        containers = pod["spec"]["containers"]  # which pods of one owner share
        asked = self._known.find(containers)
        return self._known.keep(containers, reading.asked_by(pod["spec"])) if asked is None else asked

    def _add(self, node: str, asked: dict[str, int], sign: int) -> None:
        taken = self._taken.setdefault(node, {})
        for name, amount in asked.items():
            taken[name] = taken.get(name, 0) + sign * amount
        if not any(taken.values()):
            del self._taken[node]
        self._touched[node] = None

    def rest(self) -> Iterator[Finding]:
        touched, self._touched = self._touched, {}
        for node in touched:
            has = self._has.get(node)
            if has is None:
                continue
            for name, amount in self._taken.get(node, {}).items():
                if amount > has.get(name, 0):
                    yield node, f"has {has.get(name, 0) / 10**9:g} {name}, its pods ask for {amount / 10**9:g}"
