"""No group outside its bounds by our doing: whoever sets a size sets one between the group's own limits."""

from collections.abc import Iterator, Set

from windlass.simulator.checks.violation import Finding
from windlass.simulator.world import kinds
from windlass.simulator.world.api import Change

_MIN = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
_MAX = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"


class Bounds:
    """Sizes of MachineDeployments as they change. Those that the story itself has set are not ours."""

    rule = "no group outside its bounds"

    def __init__(self, excused: Set[tuple[str, int]]) -> None:
        self._excused = excused

    def hear(self, change: Change) -> Iterator[Finding]:
        if change.kind != kinds.MACHINE_DEPLOYMENTS or change.before is None or change.now is None:
            return
        before, now = change.before["spec"].get("replicas"), change.now["spec"].get("replicas")
        if before == now or (change.key, now) in self._excused:
            return
        said = change.now["metadata"].get("annotations") or {}
        try:
            least, most = int(said.get(_MIN, 0)), int(said.get(_MAX, 0))
        except ValueError:
            yield change.key, f"set from {before} to {now}, bounds are {said.get(_MIN)!r} to {said.get(_MAX)!r}"
            return
        # On the way back from outside every step inwards is right.
        if (now > most and now > before) or (now < least and now < before):
            yield change.key, f"set from {before} to {now}, bounds are {least} to {most}"

    def rest(self) -> Iterator[Finding]:
        yield from ()
