"""Mirroring: what has to be written so that one MachineSet says what the other does."""

from typing import Any

from windlass.controllers.openshift import apis, authority, names
from windlass.controllers.openshift.authority import Authority
from windlass.controllers.openshift.machineset_sync import facts, plan
from windlass.controllers.openshift.machineset_sync import names as sync_names
from windlass.controllers.openshift.machineset_sync.conversion import annotations, infrastructure, labels, spec, status
from windlass.controllers.openshift.machineset_sync.decide import authored, machines, patching, replicas

Json = dict[str, Any]


def refer_to(cluster: facts.Json) -> Json:
    """The owner of all that belongs to a Cluster."""
    return {
        "apiVersion": cluster.get("apiVersion") or "",
        "kind": cluster.get("kind") or "",
        "name": facts.metadata(cluster).get("name") or "",
        "uid": facts.metadata(cluster).get("uid") or "",
        "controller": False,
        "blockOwnerDeletion": True,
    }


def create(seen: facts.Seen, made_of: infrastructure.Infrastructure, owner: Json, holder: apis.Api) -> plan.Create:
    """The MachineSet of Cluster API, paused unless it is to hold at once."""
    body = seen.machine_api
    assert body is not None, "nothing is mirrored that is not there"
    wanted = spec.mirror_to_cluster_api(facts.spec(body), made_of, seen.cluster_name, None)
    size = facts.spec(body).get("replicas")
    said = annotations.to_cluster_api(facts.annotations(body))
    metadata: Json = {
        "name": seen.pair.name,
        "namespace": apis.CLUSTER_API.namespace,
        "labels": {**labels.to_cluster_api(facts.labels(body)), sync_names.CLUSTER_NAME_LABEL: seen.cluster_name},
        "annotations": said | ({names.PAUSED_ANNOTATION: ""} if holder is apis.MACHINE_API else {}),
        "ownerReferences": [owner],
        "finalizers": [sync_names.FINALIZER],
    }
    return plan.Create({"metadata": metadata, "spec": wanted | ({} if size is None else {"replicas": size})})


def to_cluster_api(seen: facts.Seen, made_of: infrastructure.Infrastructure, owner: Json) -> list[plan.Step]:
    """What makes the MachineSet of Cluster API say what that of Machine API says, but for sizes, marks and status."""
    one, other = seen.both()
    wanted: Json = {
        "metadata": {
            "labels": {
                **labels.mirror_to_cluster_api(facts.labels(one), facts.labels(other)),
                sync_names.CLUSTER_NAME_LABEL: seen.cluster_name,
            },
            "annotations": _annotate(one, other, apis.MACHINE_API) | {names.PAUSED_ANNOTATION: ""},
            "ownerReferences": [owner],
        },
        "spec": spec.mirror_to_cluster_api(facts.spec(one), made_of, seen.cluster_name, facts.spec(other)),
    }
    for name in ("failureDomain", "minReadySeconds"):
        wanted["spec"]["template"]["spec"].setdefault(name, None)
    return _patch(apis.CLUSTER_API, other, wanted)


def to_machine_api(seen: facts.Seen, template: infrastructure.Template) -> list[plan.Step]:
    """The same the other way round."""
    other, one = seen.both()
    wanted: Json = {
        "metadata": {
            "labels": labels.mirror_to_machine_api(facts.labels(one), facts.labels(other)),
            "annotations": _annotate(one, other, apis.CLUSTER_API),
            "ownerReferences": None,
        },
        "spec": spec.mirror_to_machine_api(facts.spec(one), template, facts.spec(other)),
    }
    return _patch(apis.MACHINE_API, other, wanted)


def statuses(seen: facts.Seen, holder: apis.Api, now_s: float) -> list[plan.Step]:
    """What makes the mirror's status say what the holder's does, once that is of the spec that it has.

    Of a mirror that has nothing else to be written: its own generation is part of what is said.
    """
    ours, theirs = seen.both()
    if not facts.is_observed(ours if holder is apis.MACHINE_API else theirs):
        return []
    if holder is apis.MACHINE_API:
        return _patch_status(apis.CLUSTER_API, theirs, _mirror_status(ours, theirs, now_s))
    said = {**status.to_machine_api(facts.status(theirs)), "observedGeneration": facts.generation(ours)}
    return _patch_status(apis.MACHINE_API, ours, said)


def sizes(seen: facts.Seen, holder: apis.Api) -> tuple[list[plan.Step], str, bool]:
    """Marks of Machines and sizes, in this order; why; and whether the Machines have to be read first.

    Steps are done in order, and none after one that failed: what the autoscaler took away reaches Machine API only
    once the marks have.
    """
    one, other = seen.both()
    held = Authority(holder.authority)
    size, mirrored = replicas.read(one), replicas.read(other)
    decided = replicas.decide(held, size, mirrored, settles=authority.is_moving(one))
    shrinks = decided.shrinks and mirrored.replicas < size.replicas
    if shrinks and seen.machines is None:
        return [], decided.why, True
    return [*machines.decide(seen.machines or (), holder), *decided.writes], decided.why, False


def settle_annotations(seen: facts.Seen, holder: apis.Api) -> list[plan.Step]:
    one, other = seen.both()
    return list(
        authored.decide(one, other, holder) if holder is apis.MACHINE_API else authored.decide(other, one, holder)
    )


def _annotate(one: facts.Json, other: facts.Json, holder: apis.Api) -> Json:
    """Annotations of the mirror: what the holder says, its own, and those that are settled apart, as they are."""
    api = holder.mirror
    convert = annotations.to_cluster_api if api is apis.CLUSTER_API else annotations.to_machine_api
    apart = authored.list_keys(one, other, holder)

    def is_apart(key: str) -> bool:
        return annotations.spell(key, apis.MACHINE_API) in apart

    copied = {key: value for key, value in convert(facts.annotations(one)).items() if not is_apart(key)}
    there = facts.annotations(other).items()
    return {key: value for key, value in there if is_apart(key) or annotations.stays(key, api)} | copied


def _mirror_status(one: facts.Json, other: facts.Json, now_s: float) -> Json:
    said = status.to_cluster_api(one, facts.spec(other).get("selector") or {})
    there = facts.status(other)
    old = (there.get("deprecated") or {}).get("v1beta1") or {}
    said["conditions"] = status.settle_times(said["conditions"], there.get("conditions") or (), now_s)
    old_conditions = said["deprecated"]["v1beta1"]["conditions"]
    said["deprecated"]["v1beta1"]["conditions"] = status.settle_times(
        old_conditions, old.get("conditions") or (), now_s
    )
    for name in ("readyReplicas", "availableReplicas"):
        said.setdefault(name, None)
    return {**said, "observedGeneration": facts.generation(other)}


def _patch(api: apis.Api, there: facts.Json, wanted: Json) -> list[plan.Step]:
    found = patching.patch(there, wanted)
    return [plan.Patch(api, found)] if found else []


def _patch_status(api: apis.Api, there: facts.Json, wanted: Json) -> list[plan.Step]:
    found = patching.patch({"status": facts.status(there)}, {"status": wanted})
    return [plan.Patch(api, found, "status")] if found else []
