"""Nodes, pods, groups and whole scenes, as small as a test can do with."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from windlass.engine.drainability import context, pdb, rules
from windlass.engine.drainability.context import read_delete_options
from windlass.engine.model import facts, node_groups
from windlass.engine.model.settings import Settings
from windlass.engine.placement import hinting
from windlass.engine.scale_down.deletion_budgets import NOTHING_IN_PROGRESS, DeletionsInProgress
from windlass.engine.scale_down.removal_simulator import ScaleDownContext
from windlass.engine.snapshot import cluster_snapshot as snapshots

NOW_S = 1_000_000.0
PEER = Settings.cluster_autoscaler()
READY = (facts.Condition("Ready", "True"),)
NOT_READY = (facts.Condition("Ready", "False"),)
APP = facts.Owner("apps/v1", "ReplicaSet", "app", "uid-app")
AGENT = facts.Owner("apps/v1", "DaemonSet", "agent", "uid-agent")
GPU = "nvidia.com/gpu"


def amounts(cpu: int, memory: int, **others: int) -> facts.Resources:
    return tuple(sorted({facts.CPU: cpu, facts.MEMORY: memory, **others}.items()))


def node(name: str, cpu: int = 1000, memory: int = 1000, gpu: int = 0, **changes: Any) -> facts.Node:
    has = amounts(cpu, memory, **{facts.PODS: 100}, **({GPU: gpu} if gpu else {}))
    changes = {"allocatable": has, "capacity": has, "conditions": READY, "provider_id": f"id-{name}"} | changes
    return facts.Node(name, **changes)


def pod(name: str, on: str = "", cpu: int = 0, memory: int = 0, gpu: int = 0, **changes: Any) -> facts.Pod:
    asks = amounts(cpu, memory, **({GPU: gpu} if gpu else {}))
    spec = facts.PodSpec(requests=tuple((resource, amount) for resource, amount in asks if amount))
    fields: dict[str, Any] = {"owner": APP, "phase": "Running", "spec": spec}
    return facts.Pod("default", name, f"uid-{name}", node_name=on, **(fields | changes))


def group(id: str, size: int, minimum: int = 0, **options: Any) -> node_groups.NodeGroup:
    return node_groups.NodeGroup(id, minimum, 1000, size, options=node_groups.GroupOptions(**options))


def with_group(settings: Settings = PEER, **changes: Any) -> Settings:
    return replace(settings, groups=replace(settings.groups, **changes))


def with_scale_down(settings: Settings = PEER, **changes: Any) -> Settings:
    return replace(settings, scale_down=replace(settings.scale_down, **changes))


def scene(
    nodes: Iterable[facts.Node],
    pods: Iterable[facts.Pod] = (),
    group_of: Mapping[str, node_groups.NodeGroup] | None = None,
    *,
    budgets: Sequence[facts.PodDisruptionBudget] = (),
    in_progress: DeletionsInProgress = NOTHING_IN_PROGRESS,
    settings: Settings = PEER,
    now_s: float = NOW_S,
) -> ScaleDownContext:
    """All nodes in one group of their number, unless told otherwise."""
    nodes = list(nodes)
    if group_of is None:
        group_of = dict.fromkeys((one.name for one in nodes), group("g", len(nodes)))
    snapshot = snapshots.build_snapshot(nodes, pods)
    left = pdb.RemainingPdbTracker(budgets)
    about = context.DrainContext(now_s, read_delete_options(settings), budgets=left)
    judge = rules.PodDrainability(snapshot.pods, about)
    names = [one.name for one in nodes]
    return ScaleDownContext(snapshot, names, group_of, judge, left, hinting.HintingState(), in_progress)
