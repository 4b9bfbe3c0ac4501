"""No pod on two nodes: once a pod has a node, it has that node to its end."""

from collections.abc import Iterator

from windlass.simulator.checks.violation import Finding
from windlass.simulator.world import kinds
from windlass.simulator.world.api import Change


class Seats:
    """Nodes of pods by uid."""

    rule = "no pod on two nodes"

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}

    def hear(self, change: Change) -> Iterator[Finding]:
        if change.kind != kinds.PODS:
            return
        uid = change.obj["metadata"]["uid"]
        node = change.obj["spec"].get("nodeName") or ""
        before = self._nodes.get(uid, "")
        if before and node != before:
            yield change.key, f"was on {before} and is now on {node or 'none'}"
        if change.now is None:
            self._nodes.pop(uid, None)
        elif node:
            self._nodes[uid] = node

    def rest(self) -> Iterator[Finding]:
        yield from ()
