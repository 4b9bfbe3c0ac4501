"""Workload history: the workloads of the pods that were seen, with their sizes over time, rollouts and Jobs.

Pods of a Deployment, a ReplicaSet or a StatefulSet are a workload whose size changes. All others (Jobs, bare pods, pods
of other controllers) come, run for a time and end: pods of alike owners are one workload of kind Job.
"""

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from windlass.engine.model import facts
from windlass.simulator.capture.cluster_history import MIRROR_OWNER, ClusterHistory, PodHistory, SizeChange

HASH_LABEL = "pod-template-hash"

_REPLICATED = ("ReplicaSet", "ReplicationController", "StatefulSet")

_NUMBER_SUFFIX = re.compile(r"-\d+$")

_RANDOM_SUFFIX = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}$")
"""What Kubernetes appends to a generated name."""

_LEAST_RUN_S = 1.0

_UNKNOWN_RUN_S = 3600.0
"""Assumed run time of a pod whose end was not seen, unless others of its workload show another."""


@dataclass(frozen=True, slots=True)
class SizeStep:
    """A new size at a time since the beginning."""

    at_s: float
    replicas: int


@dataclass(slots=True)
class ReplicatedWorkload:
    """A Deployment or a StatefulSet."""

    kind: str
    namespace: str
    name: str
    example: PodHistory
    pods: list[PodHistory]
    first: int
    sizes: list[SizeStep] = field(default_factory=list)
    rollouts_s: list[float] = field(default_factory=list)
    surge: int = 0
    unavailable: int = 0

    def size_at(self, at_s: float) -> int:
        """Its size at a time since the beginning."""
        return next((step.replicas for step in reversed(self.sizes) if step.at_s <= at_s), self.first)


@dataclass(frozen=True, slots=True)
class JobStep:
    """Pods that one owner created at a time, and how long each of them ran."""

    at_s: float
    run_s: tuple[float, ...]


@dataclass(slots=True)
class JobWorkload:
    """Alike pods that end."""

    namespace: str
    name: str
    example: PodHistory
    pods: list[PodHistory]
    is_bare: bool
    """No controller would create another pod in place of one that is evicted."""
    jobs: list[JobStep] = field(default_factory=list)


def list_replicated(history: ClusterHistory) -> list[ReplicatedWorkload]:
    """The Deployments and StatefulSets, in order of appearance."""
    by_owner: dict[tuple[str, str, str], list[PodHistory]] = defaultdict(list)
    for pod in history.pods:
        if pod.owner is not None and pod.owner.kind in _REPLICATED:
            by_owner[pod.owner.kind, pod.template.namespace, pod.owner.name].append(pod)
    sets: dict[tuple[str, str, str], list[_OneSet]] = defaultdict(list)
    for (kind, namespace, name), pods in by_owner.items():
        changes = history.sizes.get((kind, namespace, name)) or _count_sizes(history, pods)
        is_stateful = kind == "StatefulSet"
        shown = "StatefulSet" if is_stateful else "Deployment"
        sets[shown, namespace, name if is_stateful else _deployment_name(name, pods)].append(_OneSet(pods, changes))
    replicated = []
    for (kind, namespace, name), parts in sets.items():
        if len({(_shape_of(part.pods[0])) for part in parts}) == 1:
            replicated.append(_follow_rollouts(history, kind, namespace, name, parts))
        else:
            replicated += [_follow_set(history, kind, namespace, name, part) for part in parts]
    return replicated


@dataclass(frozen=True, slots=True)
class _OneSet:
    """A ReplicaSet, or a StatefulSet."""

    pods: list[PodHistory]
    changes: Sequence[SizeChange]


def _count_sizes(history: ClusterHistory, pods: Sequence[PodHistory]) -> list[SizeChange]:
    """Sizes of a controller that could not be read, by its pods that were not replaced."""
    count = sum(1 for pod in pods if pod.is_initial) or len(pods)
    at_s = min(pod.created_s for pod in pods) if not pods[0].is_initial else history.begin_s
    return [SizeChange(count, max(at_s, history.begin_s), max(at_s, history.begin_s))]


def _deployment_name(name: str, pods: Iterable[PodHistory]) -> str:
    hashes = {hash_ for pod in pods if (hash_ := pod.labels.get(HASH_LABEL))}
    return next((name.removesuffix(f"-{hash_}") for hash_ in hashes if name.endswith(f"-{hash_}")), name)


def _shape_of(pod: PodHistory) -> tuple[object, ...]:
    return pod.template.spec, pod.template.annotations


def _date(history: ClusterHistory, change: SizeChange, pods: Sequence[PodHistory], is_growth: bool) -> float:
    """When a size was changed, since the beginning: a growth when the first of its pods was created."""
    created = [pod.created_s for pod in pods if change.after_s - 1.0 <= pod.created_s <= change.at_s]
    at_s = min(created) if is_growth and created else (change.after_s + change.at_s) / 2
    if not is_growth and change.at_s - change.after_s > 10.0:
        at_s = change.at_s - 5.0
    return max(at_s - history.begin_s, 0.0)


def _follow_set(history: ClusterHistory, kind: str, namespace: str, name: str, part: _OneSet) -> ReplicatedWorkload:
    replicated_workload = ReplicatedWorkload(kind, namespace, name, part.pods[0], part.pods, 0)
    size = 0
    for change in part.changes:
        if change.at_s <= history.begin_s:
            replicated_workload.first = change.replicas
        elif change.replicas != size:
            at_s = _date(history, change, part.pods, change.replicas > size)
            replicated_workload.sizes.append(SizeStep(at_s, change.replicas))
        size = change.replicas
    return replicated_workload


def _follow_rollouts(
    history: ClusterHistory, kind: str, namespace: str, name: str, parts: Sequence[_OneSet]
) -> ReplicatedWorkload:
    """A Deployment whose ReplicaSets replace each other: their sizes are those of its rollouts, or its own."""
    if len(parts) == 1:
        return _follow_set(history, kind, namespace, name, parts[0])
    pods = [pod for part in parts for pod in part.pods]
    events = sorted(
        ((change.at_s, number, change) for number, part in enumerate(parts) for change in part.changes),
        key=lambda event: event[:2],
    )
    replicated_workload = ReplicatedWorkload(kind, namespace, name, pods[0], pods, 0)
    sizes = dict.fromkeys(range(len(parts)), 0)
    current, base = -1, 0
    is_rolling = False
    for at_s, number, change in events:
        is_growth = change.replicas > sizes[number]
        sizes[number] = change.replicas
        total = sum(sizes.values())
        if at_s <= history.begin_s:
            replicated_workload.first = base = total
            current = number if change.replicas else current
            continue
        if number != current and is_growth:
            is_rolling = bool(base)
            if is_rolling:
                replicated_workload.rollouts_s.append(_date(history, change, parts[number].pods, is_growth))
            current = number
        if is_rolling:
            replicated_workload.surge = max(replicated_workload.surge, total - base)
            replicated_workload.unavailable = max(replicated_workload.unavailable, base - total)
            is_rolling = any(size for other, size in sizes.items() if other != current)
        if not is_rolling and total != base:
            replicated_workload.sizes.append(SizeStep(_date(history, change, parts[number].pods, total > base), total))
            base = total
    return replicated_workload


# ── Jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def list_jobs(history: ClusterHistory, start_s: float) -> list[JobWorkload]:
    """Workloads of pods that end; `start_s` is taken to be no part of their run times."""
    owned: dict[tuple[str, str, str], list[PodHistory]] = defaultdict(list)
    for pod in history.pods:
        owner = pod.owner
        if owner is None:
            owned["", pod.template.namespace, pod.name].append(pod)
        elif owner.kind not in (*_REPLICATED, "DaemonSet", MIRROR_OWNER):
            owned[owner.kind, pod.template.namespace, owner.name].append(pod)
    alike: dict[tuple[str, str, str, object], list[list[PodHistory]]] = defaultdict(list)
    for (kind, namespace, name), pods in owned.items():
        alike[kind, namespace, _base_name(name), _shape_of(pods[0])].append(pods)
    jobs = []
    for (kind, namespace, name, _), owners in alike.items():
        everyone = [pod for pods in owners for pod in pods]
        workload = JobWorkload(namespace, name, owners[0][0], everyone, not kind)
        usual_s = _usual_run(history, workload.pods, start_s)
        workload.jobs = sorted(
            (step for pods in owners for step in _follow_job(history, pods, start_s, usual_s)),
            key=lambda step: step.at_s,
        )
        jobs.append(workload)
    return jobs


def _base_name(name: str) -> str:
    return _RANDOM_SUFFIX.sub("", _NUMBER_SUFFIX.sub("", name)) or name


def _usual_run(history: ClusterHistory, pods: Sequence[PodHistory], start_s: float) -> float:
    ended = [_run_time(history, pod, start_s) for pod in pods if pod.gone_s is not None and pod.bound_s is not None]
    return statistics.median(ended) if ended else _UNKNOWN_RUN_S


def _run_time(history: ClusterHistory, pod: PodHistory, start_s: float) -> float:
    assert pod.bound_s is not None
    end_s = history.end_s if pod.gone_s is None else pod.gone_s
    return max(end_s - pod.bound_s - start_s, _LEAST_RUN_S)


def _follow_job(
    history: ClusterHistory, pods: Sequence[PodHistory], start_s: float, usual_s: float
) -> Iterator[JobStep]:
    """The pods of one owner, without those that replaced deleted ones, by the time of their creation."""
    arrivals = sorted(pod.created_s for pod in pods)
    deleted = [pod for pod in pods if pod.is_deleted and pod.gone_s is not None]
    replaced = 0
    if deleted:
        first_s = min(pod.gone_s or 0.0 for pod in deleted)
        replaced = min(len(deleted), sum(1 for created_s in arrivals if created_s >= first_s - 2.0))
    # Deleted pods last: what replaced them has run instead.
    order = sorted(pods, key=lambda pod: (pod.is_deleted, pod.bound_s or float("inf"), pod.created_s))
    runs: list[float] = []
    for pod in order[: len(pods) - replaced]:
        if pod.bound_s is None:
            runs.append(usual_s)
        elif pod.gone_s is None:
            runs.append(max(usual_s, _run_time(history, pod, start_s) + 60.0))
        else:
            runs.append(_run_time(history, pod, start_s))
    times = [max(at_s - history.begin_s, 0.0) for at_s in arrivals[: len(runs)]]
    for at_s, count in sorted(Counter(times).items()):
        yield JobStep(at_s, tuple(runs[:count]))
        del runs[:count]


def has_local_storage(spec: facts.PodSpec) -> bool:
    """Does a volume block the removal of the pod's node by default?"""
    return any(
        volume.source == "hostPath" or (volume.source == "emptyDir" and not volume.medium) for volume in spec.volumes
    )
