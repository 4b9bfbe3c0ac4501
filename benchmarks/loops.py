"""Whole decisions on a ready snapshot: what the loop benchmarks share."""

import time
from collections.abc import Callable, Iterable

from benchmarks import clusters
from windlass.autoscaler import process
from windlass.engine import decide, facts, memory
from windlass.engine import snapshot as snapshots
from windlass.engine.observation import Observation
from windlass.engine.settings import Settings

NOW_S = 1_000_000.0


def member(number: int, group: str, millicpu: int, memory_bytes: int, pods: int = 110) -> facts.Node:
    """A node of a group that has been ready for long."""
    made = clusters.node(number, millicpu, memory_bytes, pods)
    ready = facts.Condition("Ready", "True", 0.0)
    return facts.Node(
        made.name,
        made.uid,
        made.labels,
        allocatable=made.allocatable,
        capacity=made.capacity,
        provider_id=f"machine://{group}/{made.name}",
        conditions=(ready,),
    )


def group(
    name: str, nodes: Iterable[facts.Node], template: facts.Node, max_size: int, min_size: int = 0
) -> facts.NodeGroup:
    instances = tuple(facts.Instance(node.provider_id) for node in nodes)
    return facts.NodeGroup(name, min_size, max_size, len(instances), instances, template)


def observe(
    nodes: Iterable[facts.Node], pods: Iterable[facts.Pod], groups: Iterable[facts.NodeGroup]
) -> tuple[Observation, float]:
    """The observation, and the seconds that its snapshot took to build from facts."""
    started = time.perf_counter()
    snapshot = snapshots.build(nodes, pods)
    seconds = time.perf_counter() - started
    process.freeze()  # as the live process does, once it has seen everything
    return Observation(snapshot, tuple(groups)), seconds


def pending(pod: facts.Pod) -> facts.Pod:
    """The pod as the scheduler leaves it when it fits nowhere."""
    return facts.Pod(
        pod.namespace,
        pod.name,
        pod.uid,
        pod.labels,
        owner=pod.owner,
        spec=pod.spec,
        digest=pod.digest,
        unschedulable_since_s=NOW_S - 60,
        created_s=NOW_S - 60,
    )


def best(times: int, run: Callable[[], tuple[float, decide.Decision]]) -> tuple[float, decide.Decision]:
    return min((run() for _ in range(times)), key=lambda pair: pair[0])


def decide_once(
    seen: Observation, settings: Settings, remembered: memory.Memory | None = None, now_s: float = NOW_S
) -> tuple[float, decide.Decision]:
    before = remembered if remembered is not None else memory.Memory()
    started = time.perf_counter()
    decision = decide.decide(seen, before, settings, now_s)
    return time.perf_counter() - started, decision
