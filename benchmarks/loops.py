"""Whole decisions on a ready snapshot: what the loop benchmarks share."""

import time
from collections.abc import Callable, Iterable

from benchmarks import clusters
from windlass.autoscaler import app
from windlass.engine import loop, loop_memory
from windlass.engine.model import facts, node_groups
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.snapshot import cluster_snapshot as snapshots

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
) -> node_groups.NodeGroup:
    instances = tuple(node_groups.Instance(node.provider_id) for node in nodes)
    return node_groups.NodeGroup(name, min_size, max_size, len(instances), instances, template)


def observe(
    nodes: Iterable[facts.Node], pods: Iterable[facts.Pod], groups: Iterable[node_groups.NodeGroup]
) -> tuple[Observation, float]:
    """The observation, and the seconds that its snapshot took to build from facts."""
    started = time.perf_counter()
    snapshot = snapshots.build_snapshot(nodes, pods)
    seconds = time.perf_counter() - started
    app.freeze_garbage_collector()  # as the live process does, once it has seen everything
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


def best(times: int, run: Callable[[], tuple[float, loop.Decision]]) -> tuple[float, loop.Decision]:
    return min((run() for _ in range(times)), key=lambda pair: pair[0])


def decide_once(
    observation: Observation, settings: Settings, remembered: loop_memory.LoopMemory | None = None, now_s: float = NOW_S
) -> tuple[float, loop.Decision]:
    before = remembered if remembered is not None else loop_memory.LoopMemory()
    started = time.perf_counter()
    decision = loop.decide(observation, before, settings, now_s)
    return time.perf_counter() - started, decision
