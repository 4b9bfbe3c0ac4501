"""What a snapshot has kept from the loops before it changes no decision: one that is built anew is decided alike."""

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests import strategies as common
from tests.engine.loop import builders, strategies
from windlass.engine import loop_memory
from windlass.engine.loop import Decision, decide
from windlass.engine.model import facts
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation


class Cluster:
    """A snapshot that lives on while pods come and go and nodes are marked; and the facts that it should hold.

    Pods are kept in the order of their rows, which decides between equals: the row of a pod that left goes to the next
    that comes.
    """

    def __init__(self, world: strategies.World) -> None:
        self._world, self.seen = world, world.observe()
        self._pods: list[facts.Pod | None] = list(world.pods)
        self._left: list[int] = []
        self._made = 0

    def observe_anew(self) -> Observation:
        return replace(self._world, pods=tuple(pod for pod in self._pods if pod is not None)).observe()

    def remove(self, number: int) -> None:
        there = [row for row, pod in enumerate(self._pods) if pod is not None]
        if there:
            row = there[number % len(there)]
            pod, self._pods[row] = self._pods[row], None
            assert pod is not None
            self.seen.snapshot.remove_pod(pod.uid)
            self._left.append(row)

    def add(self, number: int) -> None:
        """A pod that waits."""
        self._made += 1
        pod = builders.pending(f"new-{self._made}", 100 * (1 + number % 9))
        self.seen.snapshot.add_pod(pod)
        if self._left:
            self._pods[self._left.pop()] = pod
        else:
            self._pods.append(pod)

    def bind(self, number: int) -> None:
        """A pod that runs; it comes last to its node, and so its row must be the last, too."""
        if self._world.nodes and not self._left:
            self._made += 1
            home = self._world.nodes[number % len(self._world.nodes)].name
            pod = builders.running(f"new-{self._made}", home, 100)
            self.seen.snapshot.add_pod(pod)
            self._pods.append(pod)

    def mark(self, number: int) -> None:
        if self._world.nodes:
            place = number % len(self._world.nodes)
            taint = facts.Taint("dedicated", str(number % 2), "NoSchedule")
            node = replace(self._world.nodes[place], taints=(taint,))
            self.seen.snapshot.add_node(node)
            nodes = (*self._world.nodes[:place], node, *self._world.nodes[place + 1 :])
            self._world = replace(self._world, nodes=nodes)


def outcome(observation: Observation, decision: Decision) -> tuple[object, ...]:
    """What of a decision can be compared. Pods by name: rows are given anew."""
    tried = [
        (proposal.result, sorted(map(observation.snapshot.pods.key, proposal.helped)), proposal.increases)
        for proposal in decision.story.scale_ups
    ]
    return decision.plan, decision.memory.durable, tried, decision.story.scale_down.result


Edit = Callable[[Cluster, int], None]
EDITS: tuple[Edit, ...] = (Cluster.remove, Cluster.add, Cluster.bind, Cluster.mark)


@given(
    strategies.worlds() | strategies.idle_worlds(),
    strategies.some_settings(),
    st.lists(st.lists(st.tuples(st.sampled_from(EDITS), st.integers(0, 20)), max_size=3), min_size=1, max_size=4),
)
@common.examples(100)
def test_a_snapshot_that_lived_on_is_decided_as_one_built_anew(
    world: strategies.World, settings: Settings, rounds: list[list[tuple[Edit, int]]]
) -> None:
    cluster, remembered = Cluster(world), loop_memory.LoopMemory()
    for number, edits in enumerate(rounds):
        for edit, value in edits:
            edit(cluster, value)
        now_s = builders.NOW_S + 10.0 * number
        remembered = replace(remembered, volatile=replace(remembered.volatile, standing=None))
        anew = cluster.observe_anew()
        kept = decide(cluster.seen, remembered, settings, now_s)
        assert outcome(cluster.seen, kept) == outcome(anew, decide(anew, remembered, settings, now_s))
        remembered = kept.memory
