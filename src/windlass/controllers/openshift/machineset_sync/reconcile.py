"""MachineSet sync reconcile: facts of a pair in, a plan out. Pure.

Migration comes first, then deletion, then finalizers, then the mirror: labels, annotations, spec, replicas, status.
While neither API is authoritative nothing is mirrored. Deleting the authoritative MachineSet deletes both. Deleting a
mirror deletes an authoritative MachineSet of Machine API, but not one of Cluster API.
"""

from typing import Any

from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import MachineAuthority
from windlass.controllers.openshift.machineset_sync import (
    authority_migration,
    field_ownership,
    machine_set_conversion,
    model,
    object_diff,
)


def reconcile_machine_sets(seen: model.ObservedMachineSetPair, now_s: float) -> model.SyncPlan:
    """What is to be done about a pair. Where nobody holds yet, or while authority moves, nothing is mirrored."""
    if seen.machine_api is None:
        return plan_orphan_release(seen)
    if (moved := authority_migration.plan_migration(seen, now_s)) is not None:
        return moved
    holder = next(
        (
            api
            for api in machine_apis.MACHINE_APIS
            if api.authority == machine_apis.parse_authority(seen.machine_api).value
        ),
        None,
    )
    if holder is None:
        return model.EMPTY_PLAN
    if (gone := plan_deletion(seen, holder)) is not None:
        return gone
    if held_back := _plan_finalizers(seen):
        return model.SyncPlan(tuple(held_back), reason="finalizers")
    if holder is machine_apis.MACHINE_API or seen.cluster_api is None:
        return _sync_to_cluster_api(seen, seen.machine_api, holder, now_s)
    return _sync_to_machine_api(seen, seen.cluster_api, now_s)


def _plan_finalizers(seen: model.ObservedMachineSetPair) -> list[model.Patch]:
    steps = []
    for api in machine_apis.MACHINE_APIS:
        found = seen.pair.get(api)
        if found is not None and model.FINALIZER not in model.get_finalizers(found):
            steps.append(
                model.Patch(api, {"metadata": {"finalizers": [*model.get_finalizers(found), model.FINALIZER]}})
            )
    return steps


def _sync_to_cluster_api(
    seen: model.ObservedMachineSetPair, one: model.Json, holder: machine_apis.MachineApi, now_s: float
) -> model.SyncPlan:
    events = _warning_events(
        machine_apis.MACHINE_API, machine_set_conversion.list_invalid_capacity(model.get_annotations(one))
    )
    if owners := model.get_metadata(one).get("ownerReferences"):
        text = f"metadata.ownerReferences: Invalid value: {owners}: they cannot be converted"
        return _failed_plan(model.FAILED_TO_CONVERT_TO_CLUSTER_API, text)
    if complaints := machine_set_conversion.list_unsupported_fields(one):
        return _failed_plan(model.FAILED_TO_CONVERT_TO_CLUSTER_API, "; ".join(complaints))
    value = ((model.get_spec(one).get("template") or {}).get("spec") or {}).get("providerSpec") or {}
    try:
        made_of = machine_set_conversion.parse_infrastructure(seen.pair.name, value.get("value"))
    except machine_set_conversion.ConversionError as error:
        return _failed_plan(model.FAILED_TO_CONVERT_TO_CLUSTER_API, str(error))
    if seen.cluster is None:
        text = f"Cluster {machine_apis.CLUSTER_API.namespace}/{seen.cluster_name} is not there"
        return _failed_plan(model.FAILED_TO_GET_INFRASTRUCTURE, text)
    owner = owner_reference(seen.cluster)
    there = next((each for each in seen.templates if (each.kind, each.name) == (made_of.kind, made_of.name)), None)
    steps: list[model.SyncStep] = []
    if there is None and made_of.spec is None:
        return _failed_plan(model.FAILED_TO_GET_INFRASTRUCTURE, _not_found_message(made_of.kind, made_of.name))
    if there is None:
        body = machine_set_conversion.build_template(seen.pair.name, made_of, machine_apis.CLUSTER_API.namespace, owner)
        steps.append(model.ApplyTemplate(body))
    if seen.cluster_api is None:
        steps.append(plan_cluster_api_creation(seen, made_of, owner, holder))
        # Of what holds from the start both are equal now; its generations count from the next pass on.
        done = model.SynchronizedCondition("True", model.RESOURCE_SYNCHRONIZED, model.SYNCHRONIZED_TO_CLUSTER_API)
        said = done if holder is machine_apis.CLUSTER_API else None
        return model.SyncPlan(tuple(steps), said, events, authority_migration.missing_mirror_message(seen) or "new")
    steps += plan_cluster_api_mirror(seen, made_of, owner)
    steps += plan_shared_annotations(seen, holder)
    sized, why, needs_machines = plan_sizes(seen, holder)
    if needs_machines:
        return model.SyncPlan(needs_machines=True, reason=why)
    steps += sized
    steps += plan_template_deletions(seen, made_of)
    steps = steps or plan_status_mirror(seen, holder, now_s)
    if steps or has_remaining_templates(seen, made_of):
        return model.SyncPlan(tuple(steps), events=events, reason=why)
    done = model.SynchronizedCondition(
        "True", model.RESOURCE_SYNCHRONIZED, model.SYNCHRONIZED_TO_CLUSTER_API, model.get_generation(one)
    )
    return model.SyncPlan((), done, events, why)


def _sync_to_machine_api(seen: model.ObservedMachineSetPair, one: model.Json, now_s: float) -> model.SyncPlan:
    if complaint := _owner_error(one):
        return _failed_plan(model.FAILED_TO_CONVERT_TO_MACHINE_API, complaint)
    reference = ((model.get_spec(one).get("template") or {}).get("spec") or {}).get("infrastructureRef") or {}
    if not model.get_spec(one).get("clusterName") or not reference.get("name"):
        text = "spec.clusterName and spec.template.spec.infrastructureRef.name: Required value"
        failed = _failed_plan(model.FAILED_TO_GET_INFRASTRUCTURE, text)
        event = model.SyncEvent(machine_apis.CLUSTER_API, model.SYNCHRONIZATION_ERROR, text)
        return model.SyncPlan(condition=failed.condition, events=(event,), reason=failed.reason)
    wanted = (reference.get("kind"), reference["name"])
    template = next((each for each in seen.templates if (each.kind, each.name) == wanted), None)
    if template is None:
        return _failed_plan(
            model.FAILED_TO_GET_INFRASTRUCTURE, _not_found_message(reference.get("kind") or "", reference["name"])
        )
    steps = plan_machine_api_mirror(seen, template)
    steps += plan_shared_annotations(seen, machine_apis.CLUSTER_API)
    sized, why, _ = plan_sizes(seen, machine_apis.CLUSTER_API)
    steps = [*steps, *sized] or plan_status_mirror(seen, machine_apis.CLUSTER_API, now_s)
    if steps:
        return model.SyncPlan(tuple(steps), reason=why)
    done = model.SynchronizedCondition(
        "True", model.RESOURCE_SYNCHRONIZED, model.SYNCHRONIZED_TO_MACHINE_API, model.get_generation(one)
    )
    return model.SyncPlan((), done, reason=why)


def _owner_error(one: model.Json) -> str:
    owners = model.get_metadata(one).get("ownerReferences") or ()
    group = machine_apis.CLUSTER_API.group
    if len(owners) > 1:
        return f"metadata.ownerReferences: Too many: {len(owners)}: must have at most 1 item"
    if any(each.get("kind") != "Cluster" or each.get("apiVersion", "").partition("/")[0] != group for each in owners):
        return f"metadata.ownerReferences: Invalid value: {list(owners)}: only a Cluster of {group} can be converted"
    return ""


def _not_found_message(kind: str, name: str) -> str:
    return f"{kind} {machine_apis.CLUSTER_API.namespace}/{name} is not there"


def _failed_plan(reason: str, message: str) -> model.SyncPlan:
    """What stands in the way is watched: it is looked at again when it changes."""
    return model.SyncPlan(condition=model.SynchronizedCondition("False", reason, message), reason=message)


def _warning_events(api: machine_apis.MachineApi, messages: list[str]) -> tuple[model.SyncEvent, ...]:
    return tuple(model.SyncEvent(api, model.CONVERSION_WARNING, each) for each in messages)


def plan_deletion(seen: model.ObservedMachineSetPair, holder: machine_apis.MachineApi) -> model.SyncPlan | None:
    """None if nothing is on its way out."""
    one, other = seen.machine_api, seen.cluster_api
    if not model.is_deleting(one) and not model.is_deleting(other):
        return None
    if holder is machine_apis.CLUSTER_API and other is not None:
        return _delete_cluster_api_pair(seen)
    return _delete_machine_api_pair(seen)


def _delete_machine_api_pair(seen: model.ObservedMachineSetPair) -> model.SyncPlan:
    """The mirror is paused, so that nobody else takes Cluster API's finalizer off. Ours here goes last."""
    steps: list[model.SyncStep] = []
    if not model.is_deleting(seen.machine_api):
        steps.append(model.Delete(machine_apis.MACHINE_API))
    if seen.cluster_api is not None and not model.is_deleting(seen.cluster_api):
        steps.append(model.Delete(machine_apis.CLUSTER_API))
    steps += plan_template_deletions(seen)
    if steps or has_remaining_templates(seen):
        return model.SyncPlan(tuple(steps), reason="deleted")
    if seen.cluster_api is not None:
        taken = (model.CLUSTER_API_FINALIZER, model.FINALIZER)
        return model.SyncPlan(_remove_finalizers(machine_apis.CLUSTER_API, seen.cluster_api, taken), reason="deleted")
    return model.SyncPlan(_remove_finalizers(machine_apis.MACHINE_API, seen.machine_api), reason="deleted")


def _delete_cluster_api_pair(seen: model.ObservedMachineSetPair) -> model.SyncPlan:
    both = (
        *_remove_finalizers(machine_apis.CLUSTER_API, seen.cluster_api),
        *_remove_finalizers(machine_apis.MACHINE_API, seen.machine_api),
    )
    if not model.is_deleting(seen.cluster_api):
        return model.SyncPlan(both, reason="the mirror is deleted")
    if not model.is_deleting(seen.machine_api):
        return model.SyncPlan((model.Delete(machine_apis.MACHINE_API),), reason="deleted")
    if model.CLUSTER_API_FINALIZER in model.get_finalizers(seen.cluster_api):
        return model.EMPTY_PLAN
    steps = plan_template_deletions(seen)
    if steps or has_remaining_templates(seen):
        return model.SyncPlan(tuple(steps), reason="deleted")
    # Ours on Machine API goes last: without it nobody would look at the other again.
    return model.SyncPlan(both, reason="deleted")


def plan_orphan_release(seen: model.ObservedMachineSetPair) -> model.SyncPlan:
    """Of a pair of which Machine API's is gone: ours would hold Cluster API's for ever."""
    if model.is_deleting(seen.cluster_api):
        return model.SyncPlan(
            _remove_finalizers(machine_apis.CLUSTER_API, seen.cluster_api), reason="the mirror is gone"
        )
    return model.EMPTY_PLAN


def plan_template_deletions(
    seen: model.ObservedMachineSetPair, but: model.MachineInfrastructure | None = None
) -> list[model.DeleteTemplate]:
    """Templates that were made for the set, all but what its Machines are made of."""
    found = [each for each in _own_templates(seen, but) if not each.is_deleting]
    return [model.DeleteTemplate(each.api_version, each.kind, each.name) for each in found]


def has_remaining_templates(seen: model.ObservedMachineSetPair, but: model.MachineInfrastructure | None = None) -> bool:
    """Is one on its way out, but still there?"""
    return bool(_own_templates(seen, but))


def _own_templates(
    seen: model.ObservedMachineSetPair, but: model.MachineInfrastructure | None
) -> list[model.InfrastructureTemplate]:
    """Another kind of the same content has the same name."""
    made = [each for each in seen.templates if each.labels.get(model.SET_LABEL) == seen.pair.name]
    return [each for each in made if but is None or (each.kind, each.name) != (but.kind, but.name)]


def _remove_finalizers(
    api: machine_apis.MachineApi, found: model.Json | None, taken: tuple[str, ...] = (model.FINALIZER,)
) -> tuple[model.SyncStep, ...]:
    before = model.get_finalizers(found)
    after = [each for each in before if each not in taken]
    return () if after == before else (model.Patch(api, {"metadata": {"finalizers": after}}),)


Json = dict[str, Any]


def owner_reference(cluster: model.Json) -> Json:
    """The owner of all that belongs to a Cluster."""
    return {
        "apiVersion": cluster.get("apiVersion") or "",
        "kind": cluster.get("kind") or "",
        "name": model.get_metadata(cluster).get("name") or "",
        "uid": model.get_metadata(cluster).get("uid") or "",
        "controller": False,
        "blockOwnerDeletion": True,
    }


def plan_cluster_api_creation(
    seen: model.ObservedMachineSetPair,
    made_of: model.MachineInfrastructure,
    owner: Json,
    holder: machine_apis.MachineApi,
) -> model.Create:
    """The MachineSet of Cluster API, paused unless it is to hold at once."""
    body = seen.machine_api
    assert body is not None, "nothing is mirrored that is not there"
    wanted = machine_set_conversion.mirror_spec_to_cluster_api(model.get_spec(body), made_of, seen.cluster_name, None)
    size = model.get_spec(body).get("replicas")
    said = machine_set_conversion.annotations_to_cluster_api(model.get_annotations(body))
    metadata: Json = {
        "name": seen.pair.name,
        "namespace": machine_apis.CLUSTER_API.namespace,
        "labels": {
            **machine_set_conversion.labels_to_cluster_api(model.get_labels(body)),
            model.CLUSTER_NAME_LABEL: seen.cluster_name,
        },
        "annotations": said | ({machine_apis.PAUSED_ANNOTATION: ""} if holder is machine_apis.MACHINE_API else {}),
        "ownerReferences": [owner],
        "finalizers": [model.FINALIZER],
    }
    return model.Create({"metadata": metadata, "spec": wanted | ({} if size is None else {"replicas": size})})


def plan_cluster_api_mirror(
    seen: model.ObservedMachineSetPair, made_of: model.MachineInfrastructure, owner: Json
) -> list[model.SyncStep]:
    """What makes the MachineSet of Cluster API say what that of Machine API says, but for sizes, marks and status."""
    one, other = seen.both()
    wanted: Json = {
        "metadata": {
            "labels": {
                **machine_set_conversion.mirror_labels_to_cluster_api(model.get_labels(one), model.get_labels(other)),
                model.CLUSTER_NAME_LABEL: seen.cluster_name,
            },
            "annotations": _mirror_annotations(one, other, machine_apis.MACHINE_API)
            | {machine_apis.PAUSED_ANNOTATION: ""},
            "ownerReferences": [owner],
        },
        "spec": machine_set_conversion.mirror_spec_to_cluster_api(
            model.get_spec(one), made_of, seen.cluster_name, model.get_spec(other)
        ),
    }
    for name in ("failureDomain", "minReadySeconds"):
        wanted["spec"]["template"]["spec"].setdefault(name, None)
    return _patch_steps(machine_apis.CLUSTER_API, other, wanted)


def plan_machine_api_mirror(
    seen: model.ObservedMachineSetPair, template: model.InfrastructureTemplate
) -> list[model.SyncStep]:
    """The same the other way round."""
    other, one = seen.both()
    wanted: Json = {
        "metadata": {
            "labels": machine_set_conversion.mirror_labels_to_machine_api(
                model.get_labels(one), model.get_labels(other)
            ),
            "annotations": _mirror_annotations(one, other, machine_apis.CLUSTER_API),
            "ownerReferences": None,
        },
        "spec": machine_set_conversion.mirror_spec_to_machine_api(model.get_spec(one), template, model.get_spec(other)),
    }
    return _patch_steps(machine_apis.MACHINE_API, other, wanted)


def plan_status_mirror(
    seen: model.ObservedMachineSetPair, holder: machine_apis.MachineApi, now_s: float
) -> list[model.SyncStep]:
    """What makes the mirror's status say what the holder's does, once that is of the spec that it has.

    Of a mirror that has nothing else to be written: its own generation is part of what is said.
    """
    ours, theirs = seen.both()
    if not model.is_observed(ours if holder is machine_apis.MACHINE_API else theirs):
        return []
    if holder is machine_apis.MACHINE_API:
        return _status_patch_steps(machine_apis.CLUSTER_API, theirs, _mirror_status(ours, theirs, now_s))
    said = {
        **machine_set_conversion.status_to_machine_api(model.get_status(theirs)),
        "observedGeneration": model.get_generation(ours),
    }
    return _status_patch_steps(machine_apis.MACHINE_API, ours, said)


def plan_sizes(
    seen: model.ObservedMachineSetPair, holder: machine_apis.MachineApi
) -> tuple[list[model.SyncStep], str, bool]:
    """Marks of Machines and sizes, in this order; why; and whether the Machines have to be read first.

    Steps are done in order, and none after one that failed: what the autoscaler took away reaches Machine API only
    once the marks have.
    """
    one, other = seen.both()
    held = MachineAuthority(holder.authority)
    size, mirrored = field_ownership.replicas_state(one), field_ownership.replicas_state(other)
    decided = field_ownership.decide_replicas(held, size, mirrored, settles=machine_apis.is_migration_requested(one))
    shrinks = decided.shrinks and mirrored.replicas < size.replicas
    if shrinks and seen.machines is None:
        return [], decided.reason, True
    return [*field_ownership.plan_delete_marks(seen.machines or (), holder), *decided.writes], decided.reason, False


def plan_shared_annotations(
    seen: model.ObservedMachineSetPair, holder: machine_apis.MachineApi
) -> list[model.SyncStep]:
    one, other = seen.both()
    return list(
        field_ownership.plan_annotations(one, other, holder)
        if holder is machine_apis.MACHINE_API
        else field_ownership.plan_annotations(other, one, holder)
    )


def _mirror_annotations(one: model.Json, other: model.Json, holder: machine_apis.MachineApi) -> Json:
    """Annotations of the mirror: what the holder says, its own, and those that are settled apart, as they are."""
    api = holder.mirror
    convert = (
        machine_set_conversion.annotations_to_cluster_api
        if api is machine_apis.CLUSTER_API
        else machine_set_conversion.annotations_to_machine_api
    )
    apart = field_ownership.list_shared_annotations(one, other, holder)

    def is_apart(key: str) -> bool:
        return machine_set_conversion.annotation_key(key, machine_apis.MACHINE_API) in apart

    copied = {key: value for key, value in convert(model.get_annotations(one)).items() if not is_apart(key)}
    there = model.get_annotations(other).items()
    return {
        key: value for key, value in there if is_apart(key) or machine_set_conversion.is_api_specific(key, api)
    } | copied


def _mirror_status(one: model.Json, other: model.Json, now_s: float) -> Json:
    said = machine_set_conversion.status_to_cluster_api(one, model.get_spec(other).get("selector") or {})
    there = model.get_status(other)
    old = (there.get("deprecated") or {}).get("v1beta1") or {}
    said["conditions"] = machine_set_conversion.set_transition_times(
        said["conditions"], there.get("conditions") or (), now_s
    )
    old_conditions = said["deprecated"]["v1beta1"]["conditions"]
    said["deprecated"]["v1beta1"]["conditions"] = machine_set_conversion.set_transition_times(
        old_conditions, old.get("conditions") or (), now_s
    )
    for name in ("readyReplicas", "availableReplicas"):
        said.setdefault(name, None)
    return {**said, "observedGeneration": model.get_generation(other)}


def _patch_steps(api: machine_apis.MachineApi, there: model.Json, wanted: Json) -> list[model.SyncStep]:
    found = object_diff.merge_patch(there, wanted)
    return [model.Patch(api, found)] if found else []


def _status_patch_steps(api: machine_apis.MachineApi, there: model.Json, wanted: Json) -> list[model.SyncStep]:
    found = object_diff.merge_patch({"status": model.get_status(there)}, {"status": wanted})
    return [model.Patch(api, found, "status")] if found else []
