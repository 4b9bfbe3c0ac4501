"""No running pod lost by a scale-down: a machine that is deleted while it is well goes after its pods, never before."""

from collections.abc import Iterator
from typing import Any

from windlass.simulator.checks import reading
from windlass.simulator.checks.violation import Finding
from windlass.simulator.world import kinds
from windlass.simulator.world.api import Change

Json = dict[str, Any]

_MACHINE = "cluster.x-k8s.io/machine"


class Losses:
    """Pods by node, and the Machines that are on their way out."""

    rule = "no running pod lost by a scale-down"

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Json]] = {}
        self._going: set[str] = set()

    def hear(self, change: Change) -> Iterator[Finding]:
        match change.kind:
            case kinds.MACHINES:
                name = change.obj["metadata"]["name"]
                if change.now is not None and reading.is_going(change.now):
                    self._going.add(name)
                elif change.now is None:
                    self._going.discard(name)
            case kinds.PODS:
                self._hear_pod(change)
            case kinds.NODES if change.now is None:
                yield from self._hear_end(change.obj)

    def _hear_pod(self, change: Change) -> None:
        node = change.obj["spec"].get("nodeName") or ""
        if change.now is None:
            held = self._pods.get(node, {})
            held.pop(change.key, None)
            if not held:
                self._pods.pop(node, None)
        elif node:
            self._pods.setdefault(node, {})[change.key] = change.now

    def _hear_end(self, node: Json) -> Iterator[Finding]:
        """A node is gone: who was still there?"""
        left = self._pods.pop(node["metadata"]["name"], {})
        machine = (node["metadata"].get("annotations") or {}).get(_MACHINE, "")
        if machine not in self._going or not reading.holds(node, "Ready"):
            return
        for key, pod in left.items():
            if not reading.has_ended(pod) and reading.owner_of(pod).get("kind") != "DaemonSet":
                yield key, f"was still on {node['metadata']['name']} when its machine was deleted"

    def rest(self) -> Iterator[Finding]:
        yield from ()
