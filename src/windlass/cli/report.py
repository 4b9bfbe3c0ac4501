"""A report on a cluster: every pending pod judged alone against what is there."""

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from windlass import errors
from windlass.autoscaler import scheduler_config
from windlass.autoscaler.observe import cluster
from windlass.autoscaler.observe import snapshot as observed
from windlass.cli import findings, reasons
from windlass.engine import facts, shapes, snapshot
from windlass.explain import amounts

Notes = Mapping[str, tuple[str, ...]]
"""What is known of pods besides their facts, by `namespace/name`."""

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Group:
    """Pods of one owner that no filter can tell apart, and what else is to be told of them."""

    shape: shapes.Shape
    notes: tuple[str, ...]
    pods: list[facts.Pod] = field(default_factory=list)


def make(
    seen: cluster.Cluster, notes: Notes, profile: scheduler_config.Profile, explained: str | None, *, verbose: bool
) -> findings.Report:
    """Judge every pending pod; node by node where `verbose`, or only the one that is to be `explained`."""
    found = observed.build(seen)
    groups = _group(found, seen.pods, notes, profile)
    if explained is not None:
        groups = [_choose(groups, explained, seen.pods)]
    each = verbose or explained is not None
    judge = functools.cache(lambda shape: reasons.judge(found, shape, profile.filters, each=each))
    return findings.Report(
        nodes=len(found.nodes.rows),
        running=sum(len(found.pods_on(row)) for row in found.nodes.rows.values()),
        pending=tuple(_find(group, judge(group.shape)) for group in groups),
        set_aside=tuple(_set_aside(error) for error in seen.set_aside),
        warnings=tuple(_warn(seen, found)),
    )


def _group(
    found: snapshot.Snapshot, pods: Iterable[facts.Pod], notes: Notes, profile: scheduler_config.Profile
) -> list[Group]:
    """Those that wait, in order of appearance."""
    groups: dict[object, Group] = {}
    for pod in pods:
        if not pod.node_name and pod.phase not in snapshot.FINISHED:
            shape = found.shape_of(pod)
            told = (*notes.get(pod.key, ()), *_tell(pod, profile))
            groups.setdefault((shape.id, pod.owner or pod.key, told), Group(shape, told)).pods.append(pod)
    return list(groups.values())


def _tell(pod: facts.Pod, profile: scheduler_config.Profile) -> Iterator[str]:
    if pod.scheduler != profile.scheduler_name:
        yield f"it is for the scheduler {pod.scheduler}, judged here as by {profile.scheduler_name}"
    if pod.is_terminating:
        yield "it is being deleted, and no longer scheduled"
    if pod.nominated_node:
        yield f"it is nominated to {pod.nominated_node}, where pods make way for it"


def _choose(groups: list[Group], explained: str, pods: list[facts.Pod]) -> Group:
    """The pod that is named `namespace/name`, or just `name`."""
    chosen = [(group, pod) for group in groups for pod in group.pods if explained in (pod.key, pod.name)]
    if len(chosen) == 1:
        group, pod = chosen[0]
        return Group(group.shape, group.notes, [pod])
    if chosen:
        names = ", ".join(pod.key for _, pod in chosen)
        raise errors.InvalidInput(f"--explain {explained}: found {names}, expected one; name its namespace")
    for pod in pods:
        if explained in (pod.key, pod.name):
            state = f"it is on {pod.node_name}" if pod.node_name else f"its phase is {pod.phase}"
            raise errors.InvalidInput(f"--explain {explained}: expected a pod that is pending, but {state}")
    raise errors.InvalidInput(f"--explain {explained}: no such pod among those that could be read")


def _find(group: Group, judged: reasons.Judged) -> findings.Finding:
    owner = group.pods[0].owner
    return findings.Finding(
        pod=group.pods[0].key,
        count=len(group.pods),
        pods=tuple(pod.key for pod in group.pods),
        owner=f"{owner.kind}/{owner.name}" if owner else None,
        requests=amounts.spell_all(group.shape.spec.requests),
        notes=group.notes,
        fits=judged.fits,
        nodes=judged.nodes,
        message=judged.message,
        reasons=judged.reasons,
        verdicts=judged.verdicts,
    )


def _set_aside(error: errors.InvalidObject) -> findings.SetAside:
    return findings.SetAside(error.kind, error.name, error.field, error.found, error.accepted)


def _warn(seen: cluster.Cluster, found: snapshot.Snapshot) -> Iterator[str]:
    known = {kind.lower(): f"{version} {kind}" for version, kind in cluster.READERS}
    for passed, count in seen.passed_over.items():
        meant = known.get(passed.rsplit(" ", 1)[-1].lower().removesuffix("s"))
        if meant is not None:
            yield f"passed over {count} of {passed}: expected {meant}"
    bound = (pod.node_name for pod in seen.pods if pod.node_name and pod.phase not in snapshot.FINISHED)
    unknown = dict.fromkeys(name for name in bound if name not in found.nodes.rows)
    if unknown:
        names = list(unknown)
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"pods are on nodes that are not there, and count nowhere: {', '.join(names[:_NAMED])}{more}"
