"""MachineSet sync reconcile: facts of a pair in, a plan out. Pure.

Beside OpenShift's own sync only what the autoscaler wrote is carried over. Otherwise migration comes first, then
deletion, then finalizers, then the mirror: labels, annotations, spec, replicas, status. While neither API is
authoritative nothing is mirrored. Where the Machines of a set cannot be converted, an existing mirror is still given
what scaling needs. Deleting the authoritative MachineSet deletes both. Deleting a mirror deletes an authoritative
MachineSet of Machine API, but not one of Cluster API; and it deletes nothing if the mirror goes because Cluster API is
removed.
"""

import dataclasses
from typing import Any

from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import MachineAuthority
from windlass.controllers.openshift.machineset_sync import (
    authority_migration,
    field_ownership,
    machine_set_conversion,
    model,
    object_diff,
    provider_specs,
)


def reconcile_machine_sets(observed: model.ObservedMachineSetPair, now_s: float) -> model.SyncPlan:
    """The plan for a pair. Nothing is mirrored while no API is authoritative."""
    if observed.has_other_sync:
        return _sync_requests(observed)
    if observed.machine_api is None:
        return plan_orphan_release(observed)
    if (moved := authority_migration.plan_migration(observed, now_s)) is not None:
        return moved
    holder = next(
        (
            api
            for api in machine_apis.MACHINE_APIS
            if api.authority == machine_apis.parse_authority(observed.machine_api).value
        ),
        None,
    )
    if holder is None:
        return model.EMPTY_PLAN
    if (gone := plan_deletion(observed, holder)) is not None:
        unread = observed.template_error  # a template that cannot be read is not gone
        return _failed_plan(model.FAILED_TO_GET_INFRASTRUCTURE, unread) if unread else gone
    if record := authority_migration.plan_stable_record(observed.machine_api):
        return model.SyncPlan(record, reason="last stable authority")
    if held_back := _plan_finalizers(observed):
        return model.SyncPlan(tuple(held_back), reason="finalizers")
    if holder is machine_apis.MACHINE_API or observed.cluster_api is None:
        return _sync_to_cluster_api(observed, observed.machine_api, holder, now_s)
    return _sync_to_machine_api(observed, observed.cluster_api, now_s)


def _sync_requests(observed: model.ObservedMachineSetPair) -> model.SyncPlan:
    """The plan beside OpenShift's own sync: sizes and delete marks that the autoscaler wrote to a mirror.

    All else is that sync's: copies in both directions, authority, conditions, finalizers, templates and deletion.
    """
    item, other, api = observed.machine_api, observed.cluster_api, machine_apis.MACHINE_API
    is_held = item is not None and machine_apis.parse_authority(item).value == api.authority
    if item is None or other is None or not is_held or model.is_deleting(item) or model.is_deleting(other):
        return model.EMPTY_PLAN
    size, mirrored = field_ownership.replicas_state(item), field_ownership.replicas_state(other)
    decided = field_ownership.decide_requested_replicas(size, mirrored, observed.requests.replicas)
    shrinks = any(write.api is api and write.replicas < size.replicas for write in decided.writes)
    if observed.machines is None and (shrinks or observed.requests.marked or observed.requests.unmarked):
        return model.SyncPlan(needs_machines=True, reason=decided.reason)
    marks = field_ownership.plan_requested_marks(observed.machines or (), observed.requests)
    return model.SyncPlan((*marks, *decided.writes), reason=decided.reason)


def _plan_finalizers(observed: model.ObservedMachineSetPair) -> list[model.Patch]:
    steps = []
    for api in machine_apis.MACHINE_APIS:
        found = observed.pair.get(api)
        if found is not None and model.FINALIZER not in model.get_finalizers(found):
            steps.append(
                model.Patch(api, {"metadata": {"finalizers": [*model.get_finalizers(found), model.FINALIZER]}})
            )
    return steps


def _sync_to_cluster_api(
    observed: model.ObservedMachineSetPair, one: model.Json, holder: machine_apis.MachineApi, now_s: float
) -> model.SyncPlan:
    events = _warning_events(
        machine_apis.MACHINE_API, machine_set_conversion.list_invalid_capacity(model.get_annotations(one))
    )
    made_of, cluster = _find_infrastructure(observed, one, holder), observed.cluster
    if isinstance(made_of, model.SyncPlan) or cluster is None:
        failed = made_of if isinstance(made_of, model.SyncPlan) else _cluster_not_found(observed)
        return _sync_scaling(observed, holder, dataclasses.replace(failed, events=events), now_s)
    owner = owner_reference(cluster)
    there = _find_template(observed, made_of.kind, made_of.name)
    steps: list[model.SyncStep] = []
    if there is None and not made_of.is_scaling_only:
        body = machine_set_conversion.build_template(
            observed.pair.name, made_of, machine_apis.CLUSTER_API.namespace, owner
        )
        steps.append(model.ApplyTemplate(body))
    if observed.cluster_api is None:
        steps.append(plan_cluster_api_creation(observed, made_of, owner, holder))
        # A new pair is equal from the start; its generation is recorded from the next reconcile on.
        done = model.SynchronizedCondition("True", model.RESOURCE_SYNCHRONIZED, model.SYNCHRONIZED_TO_CLUSTER_API)
        condition = done if holder is machine_apis.CLUSTER_API else None
        return model.SyncPlan(
            tuple(steps), condition, events, authority_migration.missing_mirror_message(observed) or "new"
        )
    steps += plan_cluster_api_mirror(observed, made_of, owner)
    steps += plan_shared_annotations(observed, holder)
    sized, reason, needs_machines = plan_sizes(observed, holder)
    if needs_machines:
        return model.SyncPlan(needs_machines=True, reason=reason)
    steps += sized
    steps += plan_template_deletions(observed, made_of)
    steps = steps or plan_status_mirror(observed, holder, now_s)
    if steps or has_remaining_templates(observed, made_of):
        return model.SyncPlan(tuple(steps), events=events, reason=reason)
    if made_of.is_scaling_only:
        failed = _failed_plan(model.FAILED_TO_CONVERT_TO_CLUSTER_API, _scaling_only_message(one))
        return dataclasses.replace(failed, events=events)
    done = model.SynchronizedCondition(
        "True", model.RESOURCE_SYNCHRONIZED, model.SYNCHRONIZED_TO_CLUSTER_API, model.get_generation(one)
    )
    return model.SyncPlan((), done, events, reason)


def _scaling_only_message(one: model.Json) -> str:
    """Why a set that is scaled through its mirror cannot become Cluster API's."""
    complaints = machine_set_conversion.list_unsupported_fields(one)
    kind = (_provider_spec(one) or {}).get("kind")
    text = (
        f"spec.template.spec.providerSpec.value: {kind} is converted as far as scaling reads it: the mirror can be"
        " scaled, and cannot become authoritative"
    )
    return "; ".join([text, *complaints])


def _provider_spec(one: model.Json) -> model.Json | None:
    value = ((model.get_spec(one).get("template") or {}).get("spec") or {}).get("providerSpec") or {}
    found: model.Json | None = value.get("value")
    return found


def _find_infrastructure(
    observed: model.ObservedMachineSetPair, one: model.Json, holder: machine_apis.MachineApi
) -> model.MachineInfrastructure | model.SyncPlan:
    """What Machines of a set of Machine API are made of in Cluster API; the failed plan if it cannot be expressed.

    The provider spec of a cloud is converted for scaling alone, and not for a mirror that has a template already.
    """
    failed = model.FAILED_TO_CONVERT_TO_CLUSTER_API
    if owners := model.get_metadata(one).get("ownerReferences"):
        return _failed_plan(failed, f"metadata.ownerReferences: Invalid value: {owners}: they cannot be converted")
    value = _provider_spec(one)
    provider = provider_specs.find_provider(value)
    mirrored = observed.cluster_api
    is_own = mirrored is None or provider_specs.is_not_converted(mirrored)
    if provider is not None and holder is machine_apis.MACHINE_API and is_own:
        return provider_specs.infrastructure(observed.pair.name, provider, value or {})
    if complaints := machine_set_conversion.list_unsupported_fields(one):
        return _failed_plan(failed, "; ".join(complaints))
    try:
        made_of = machine_set_conversion.parse_infrastructure(observed.pair.name, value)
    except machine_set_conversion.ConversionError as error:
        return _failed_plan(failed, str(error))
    if observed.template_error:
        return _failed_plan(model.FAILED_TO_GET_INFRASTRUCTURE, observed.template_error)
    if made_of.spec is None and _find_template(observed, made_of.kind, made_of.name) is None:
        return _failed_plan(model.FAILED_TO_GET_INFRASTRUCTURE, _not_found_message(made_of.kind, made_of.name))
    return made_of


def _cluster_not_found(observed: model.ObservedMachineSetPair) -> model.SyncPlan:
    text = f"Cluster {machine_apis.CLUSTER_API.namespace}/{observed.cluster_name} is not there"
    return _failed_plan(model.FAILED_TO_GET_INFRASTRUCTURE, text)


def _find_template(observed: model.ObservedMachineSetPair, kind: str, name: str) -> model.InfrastructureTemplate | None:
    return next((template for template in observed.templates if (template.kind, template.name) == (kind, name)), None)


def _sync_to_machine_api(observed: model.ObservedMachineSetPair, one: model.Json, now_s: float) -> model.SyncPlan:
    template = _find_source_template(observed, one)
    if isinstance(template, model.SyncPlan):
        return _sync_scaling(observed, machine_apis.CLUSTER_API, template, now_s)
    steps = plan_machine_api_mirror(observed, template)
    steps += plan_shared_annotations(observed, machine_apis.CLUSTER_API)
    sized, reason, _ = plan_sizes(observed, machine_apis.CLUSTER_API)
    steps = [*steps, *sized] or plan_status_mirror(observed, machine_apis.CLUSTER_API, now_s)
    if steps:
        return model.SyncPlan(tuple(steps), reason=reason)
    done = model.SynchronizedCondition(
        "True", model.RESOURCE_SYNCHRONIZED, model.SYNCHRONIZED_TO_MACHINE_API, model.get_generation(one)
    )
    return model.SyncPlan((), done, reason=reason)


def _find_source_template(
    observed: model.ObservedMachineSetPair, one: model.Json
) -> model.InfrastructureTemplate | model.SyncPlan:
    """The template of a set of Cluster API; the failed plan if it cannot be expressed in Machine API."""
    if complaint := _owner_error(one):
        return _failed_plan(model.FAILED_TO_CONVERT_TO_MACHINE_API, complaint)
    reference = ((model.get_spec(one).get("template") or {}).get("spec") or {}).get("infrastructureRef") or {}
    if not model.get_spec(one).get("clusterName") or not reference.get("name"):
        text = "spec.clusterName and spec.template.spec.infrastructureRef.name: Required value"
        event = model.SyncEvent(machine_apis.CLUSTER_API, model.SYNCHRONIZATION_ERROR, text)
        return dataclasses.replace(_failed_plan(model.FAILED_TO_GET_INFRASTRUCTURE, text), events=(event,))
    if observed.template_error:
        return _failed_plan(model.FAILED_TO_GET_INFRASTRUCTURE, observed.template_error)
    kind, name = reference.get("kind") or "", reference["name"]
    return _find_template(observed, kind, name) or _failed_plan(
        model.FAILED_TO_GET_INFRASTRUCTURE, _not_found_message(kind, name)
    )


def _sync_scaling(
    observed: model.ObservedMachineSetPair, holder: machine_apis.MachineApi, failed: model.SyncPlan, now_s: float
) -> model.SyncPlan:
    """What scaling needs of a pair whose Machines cannot be converted: bounds, capacities, delete marks, sizes, counts.

    A mirror that somebody else made is as good for that as our own. What it is made of stays as it is, and so does the
    failure, which is reported when nothing is left to write.
    """
    if observed.cluster_api is None:
        return failed
    steps = plan_scaling_annotations(observed, holder)
    steps += plan_shared_annotations(observed, holder)
    sized, reason, needs_machines = plan_sizes(observed, holder)
    if needs_machines:
        return model.SyncPlan(needs_machines=True, reason=reason)
    steps = [*steps, *sized] or plan_status_mirror(observed, holder, now_s)
    return model.SyncPlan(tuple(steps), events=failed.events, reason=reason) if steps else failed


def _owner_error(one: model.Json) -> str:
    owners = model.get_metadata(one).get("ownerReferences") or ()
    group = machine_apis.CLUSTER_API.group
    if len(owners) > 1:
        return f"metadata.ownerReferences: Too many: {len(owners)}: must have at most 1 item"
    if any(item.get("kind") != "Cluster" or item.get("apiVersion", "").partition("/")[0] != group for item in owners):
        return f"metadata.ownerReferences: Invalid value: {list(owners)}: only a Cluster of {group} can be converted"
    return ""


def _not_found_message(kind: str, name: str) -> str:
    return f"{kind} {machine_apis.CLUSTER_API.namespace}/{name} is not there"


def _failed_plan(reason: str, message: str) -> model.SyncPlan:
    """A plan with an error condition. The cause is watched, so it needs no requeue."""
    return model.SyncPlan(condition=model.SynchronizedCondition("False", reason, message), reason=message)


def _warning_events(api: machine_apis.MachineApi, messages: list[str]) -> tuple[model.SyncEvent, ...]:
    return tuple(model.SyncEvent(api, model.CONVERSION_WARNING, item) for item in messages)


def plan_deletion(observed: model.ObservedMachineSetPair, holder: machine_apis.MachineApi) -> model.SyncPlan | None:
    """The plan of a deletion; None if neither MachineSet is being deleted."""
    item, other = observed.machine_api, observed.cluster_api
    if not model.is_deleting(item) and not model.is_deleting(other):
        return None
    if holder is machine_apis.CLUSTER_API and other is not None:
        return _delete_cluster_api_pair(observed)
    if observed.is_cluster_api_going and not model.is_deleting(item):
        released = _remove_finalizers(machine_apis.CLUSTER_API, other, _MIRROR_FINALIZERS)
        return model.SyncPlan(released, reason="Cluster API is removed")
    return _delete_machine_api_pair(observed)


def not_ready_reason(observed: model.ObservedMachineSetPair, condition: model.SynchronizedCondition | None) -> str:
    """Why a pair needs attention; empty if its MachineSets are equal as far as scaling needs.

    What a cloud's provider spec is made of is never converted: a mirror that is scaled all the same is as it should be.
    """
    if observed.machine_api is None:
        return ""
    if machine_apis.parse_authority(observed.machine_api) is MachineAuthority.MIGRATING:
        return MachineAuthority.MIGRATING.value
    is_scaled = observed.cluster_api is not None
    if condition is None or condition.status != "False":
        return ""
    return "" if is_scaled and condition.reason == model.FAILED_TO_CONVERT_TO_CLUSTER_API else condition.reason


def deletes_machine_api(sync_plan: model.SyncPlan) -> bool:
    """True if a plan deletes the MachineSet of Machine API, and with it Machines that run the workload."""
    return model.Delete(machine_apis.MACHINE_API) in sync_plan.steps


_MIRROR_FINALIZERS = (model.CLUSTER_API_FINALIZER, model.FINALIZER)
"""Those of a paused mirror, whose own controller removes none."""


def _delete_machine_api_pair(observed: model.ObservedMachineSetPair) -> model.SyncPlan:
    """Delete a pair of Machine API.

    The mirror is paused, so that Cluster API's finalizer stays; ours is removed last.
    """
    steps: list[model.SyncStep] = []
    if not model.is_deleting(observed.machine_api):
        steps.append(model.Delete(machine_apis.MACHINE_API))
    if observed.cluster_api is not None and not model.is_deleting(observed.cluster_api):
        steps.append(model.Delete(machine_apis.CLUSTER_API))
    steps += plan_template_deletions(observed)
    if steps or has_remaining_templates(observed):
        return model.SyncPlan(tuple(steps), reason="deleted")
    if observed.cluster_api is not None:
        return model.SyncPlan(
            _remove_finalizers(machine_apis.CLUSTER_API, observed.cluster_api, _MIRROR_FINALIZERS), reason="deleted"
        )
    return model.SyncPlan(_remove_finalizers(machine_apis.MACHINE_API, observed.machine_api), reason="deleted")


def _delete_cluster_api_pair(observed: model.ObservedMachineSetPair) -> model.SyncPlan:
    both = (
        *_remove_finalizers(machine_apis.CLUSTER_API, observed.cluster_api),
        *_remove_finalizers(machine_apis.MACHINE_API, observed.machine_api),
    )
    if not model.is_deleting(observed.cluster_api):
        return model.SyncPlan(both, reason="the mirror is deleted")
    if not model.is_deleting(observed.machine_api):
        return model.SyncPlan((model.Delete(machine_apis.MACHINE_API),), reason="deleted")
    if model.CLUSTER_API_FINALIZER in model.get_finalizers(observed.cluster_api):
        return model.EMPTY_PLAN
    steps = plan_template_deletions(observed)
    if steps or has_remaining_templates(observed):
        return model.SyncPlan(tuple(steps), reason="deleted")
    # Our finalizer on Machine API is removed last: without it the pair would not be reconciled again.
    return model.SyncPlan(both, reason="deleted")


def plan_orphan_release(observed: model.ObservedMachineSetPair) -> model.SyncPlan:
    """Remove our finalizer from a MachineSet of Cluster API whose counterpart is gone."""
    if model.is_deleting(observed.cluster_api):
        return model.SyncPlan(
            _remove_finalizers(machine_apis.CLUSTER_API, observed.cluster_api), reason="the mirror is gone"
        )
    return model.EMPTY_PLAN


def plan_template_deletions(
    observed: model.ObservedMachineSetPair, but: model.MachineInfrastructure | None = None
) -> list[model.DeleteTemplate]:
    """Deletions of generated templates that the MachineSet no longer uses."""
    infrastructure_templates = [
        infrastructure_template
        for infrastructure_template in _own_templates(observed, but)
        if not infrastructure_template.is_deleting
    ]
    return [model.DeleteTemplate(each.api_version, each.kind, each.name) for each in infrastructure_templates]


def has_remaining_templates(
    observed: model.ObservedMachineSetPair, but: model.MachineInfrastructure | None = None
) -> bool:
    """True if a generated template is still being deleted."""
    return bool(_own_templates(observed, but))


def _own_templates(
    observed: model.ObservedMachineSetPair, but: model.MachineInfrastructure | None
) -> list[model.InfrastructureTemplate]:
    """Templates generated for the set. Templates of another kind may have the same name."""
    made = [
        infrastructure_template
        for infrastructure_template in observed.templates
        if infrastructure_template.labels.get(model.SET_LABEL) == observed.pair.name
    ]
    return [each for each in made if but is None or (each.kind, each.name) != (but.kind, but.name)]


def _remove_finalizers(
    api: machine_apis.MachineApi, found: model.Json | None, taken: tuple[str, ...] = (model.FINALIZER,)
) -> tuple[model.SyncStep, ...]:
    before = model.get_finalizers(found)
    after = [item for item in before if item not in taken]
    return () if after == before else (model.Patch(api, {"metadata": {"finalizers": after}}),)


Json = dict[str, Any]


def owner_reference(cluster: model.Json) -> Json:
    """The owner reference to the Cluster."""
    return {
        "apiVersion": cluster.get("apiVersion") or "",
        "kind": cluster.get("kind") or "",
        "name": model.get_metadata(cluster).get("name") or "",
        "uid": model.get_metadata(cluster).get("uid") or "",
        "controller": False,
        "blockOwnerDeletion": True,
    }


def plan_cluster_api_creation(
    observed: model.ObservedMachineSetPair,
    made_of: model.MachineInfrastructure,
    owner: Json,
    holder: machine_apis.MachineApi,
) -> model.Create:
    """Create the MachineSet of Cluster API, paused unless it is authoritative at once."""
    body = observed.machine_api
    assert body is not None, "nothing is mirrored that is not there"
    desired = machine_set_conversion.mirror_spec_to_cluster_api(
        model.get_spec(body), made_of, observed.cluster_name, None
    )
    size = model.get_spec(body).get("replicas")
    annotations = _annotations_to_cluster_api(body)
    metadata: Json = {
        "name": observed.pair.name,
        "namespace": machine_apis.CLUSTER_API.namespace,
        "labels": {
            **machine_set_conversion.labels_to_cluster_api(model.get_labels(body)),
            model.CLUSTER_NAME_LABEL: observed.cluster_name,
        },
        "annotations": annotations
        | ({machine_apis.PAUSED_ANNOTATION: ""} if holder is machine_apis.MACHINE_API else {}),
        "ownerReferences": [owner],
        "finalizers": [model.FINALIZER],
    }
    return model.Create({"metadata": metadata, "spec": desired | ({} if size is None else {"replicas": size})})


def plan_cluster_api_mirror(
    observed: model.ObservedMachineSetPair, made_of: model.MachineInfrastructure, owner: Json
) -> list[model.SyncStep]:
    """Steps that mirror Machine API's MachineSet to Cluster API, except replicas, delete marks and status."""
    item, other = observed.both()
    desired: Json = {
        "metadata": {
            "labels": {
                **machine_set_conversion.mirror_labels_to_cluster_api(model.get_labels(item), model.get_labels(other)),
                model.CLUSTER_NAME_LABEL: observed.cluster_name,
            },
            "annotations": _mirror_annotations(item, other, machine_apis.MACHINE_API)
            | {machine_apis.PAUSED_ANNOTATION: ""},
            "ownerReferences": [owner],
        },
        "spec": machine_set_conversion.mirror_spec_to_cluster_api(
            model.get_spec(item), made_of, observed.cluster_name, model.get_spec(other)
        ),
    }
    for name in ("failureDomain", "minReadySeconds"):
        desired["spec"]["template"]["spec"].setdefault(name, None)
    return _patch_steps(machine_apis.CLUSTER_API, other, desired)


def plan_scaling_annotations(
    observed: model.ObservedMachineSetPair, holder: machine_apis.MachineApi
) -> list[model.SyncStep]:
    """The step that mirrors the annotations that the autoscaler reads, and pauses a mirror in Cluster API."""
    api, other = holder.mirror, observed.pair.get(holder.mirror) or {}
    wanted = _mirror_annotations(observed.pair.get(holder) or {}, other, holder)
    scaling = machine_set_conversion.is_scaling_annotation
    desired = {key: value for key, value in model.get_annotations(other).items() if not scaling(key)}
    desired |= {key: value for key, value in wanted.items() if scaling(key)}
    if api is machine_apis.CLUSTER_API:
        desired[machine_apis.PAUSED_ANNOTATION] = ""
    return _patch_steps(api, other, {"metadata": {"annotations": desired}})


def plan_machine_api_mirror(
    observed: model.ObservedMachineSetPair, template: model.InfrastructureTemplate
) -> list[model.SyncStep]:
    """Steps that mirror Cluster API's MachineSet to Machine API, except replicas, delete marks and status."""
    other, item = observed.both()
    desired: Json = {
        "metadata": {
            "labels": machine_set_conversion.mirror_labels_to_machine_api(
                model.get_labels(item), model.get_labels(other)
            ),
            "annotations": _mirror_annotations(item, other, machine_apis.CLUSTER_API),
            "ownerReferences": None,
        },
        "spec": machine_set_conversion.mirror_spec_to_machine_api(
            model.get_spec(item), template, model.get_spec(other)
        ),
    }
    return _patch_steps(machine_apis.MACHINE_API, other, desired)


def plan_status_mirror(
    observed: model.ObservedMachineSetPair, holder: machine_apis.MachineApi, now_s: float
) -> list[model.SyncStep]:
    """The step that mirrors the status, once the source has observed its spec.

    Only if the mirror needs no other write, since its generation is part of the status.
    """
    machine_api, cluster_api = observed.both()
    if not model.is_observed(machine_api if holder is machine_apis.MACHINE_API else cluster_api):
        return []
    if holder is machine_apis.MACHINE_API:
        return _status_patch_steps(
            machine_apis.CLUSTER_API, cluster_api, _mirror_status(machine_api, cluster_api, now_s)
        )
    status = {
        **machine_set_conversion.status_to_machine_api(model.get_status(cluster_api)),
        "observedGeneration": model.get_generation(machine_api),
    }
    return _status_patch_steps(machine_apis.MACHINE_API, machine_api, status)


def plan_sizes(
    observed: model.ObservedMachineSetPair, holder: machine_apis.MachineApi
) -> tuple[list[model.SyncStep], str, bool]:
    """Steps for delete marks, then replicas; the reason; and whether Machines must be read first.

    A failed step stops the rest: a reduction by the autoscaler reaches Machine API only after the delete marks.
    """
    item, other = observed.both()
    held = MachineAuthority(holder.authority)
    size, mirrored = field_ownership.replicas_state(item), field_ownership.replicas_state(other)
    decided = field_ownership.decide_replicas(held, size, mirrored, settles=machine_apis.is_migration_requested(item))
    shrinks = decided.shrinks and mirrored.replicas < size.replicas
    if shrinks and observed.machines is None:
        return [], decided.reason, True
    return [*field_ownership.plan_delete_marks(observed.machines or (), holder), *decided.writes], decided.reason, False


def plan_shared_annotations(
    observed: model.ObservedMachineSetPair, holder: machine_apis.MachineApi
) -> list[model.SyncStep]:
    item, other = observed.both()
    return list(
        field_ownership.plan_annotations(item, other, holder)
        if holder is machine_apis.MACHINE_API
        else field_ownership.plan_annotations(other, item, holder)
    )


def _mirror_annotations(one: model.Json, other: model.Json, holder: machine_apis.MachineApi) -> Json:
    """Desired annotations of the mirror: the source's, its own, and shared ones unchanged."""
    api = holder.mirror
    converted = (
        _annotations_to_cluster_api(one)
        if api is machine_apis.CLUSTER_API
        else machine_set_conversion.annotations_to_machine_api(model.get_annotations(one))
    )
    apart = field_ownership.list_shared_annotations(one, other, holder)

    def is_apart(key: str) -> bool:
        return machine_set_conversion.annotation_key(key, machine_apis.MACHINE_API) in apart

    copied = {key: value for key, value in converted.items() if not is_apart(key)}
    there = model.get_annotations(other).items()
    return {
        key: value for key, value in there if is_apart(key) or machine_set_conversion.is_api_specific(key, api)
    } | copied


def _annotations_to_cluster_api(machine_set: model.Json) -> Json:
    """Annotations in Cluster API's form, with those for what scaling reads in the spec."""
    return provider_specs.scaling_annotations(machine_set) | machine_set_conversion.annotations_to_cluster_api(
        model.get_annotations(machine_set)
    )


def _mirror_status(one: model.Json, other: model.Json, now_s: float) -> Json:
    status = machine_set_conversion.status_to_cluster_api(one, model.get_spec(other).get("selector") or {})
    there = model.get_status(other)
    old = (there.get("deprecated") or {}).get("v1beta1") or {}
    status["conditions"] = machine_set_conversion.set_transition_times(
        status["conditions"], there.get("conditions") or (), now_s
    )
    old_conditions = status["deprecated"]["v1beta1"]["conditions"]
    status["deprecated"]["v1beta1"]["conditions"] = machine_set_conversion.set_transition_times(
        old_conditions, old.get("conditions") or (), now_s
    )
    for name in ("readyReplicas", "availableReplicas"):
        status.setdefault(name, None)
    return {**status, "observedGeneration": model.get_generation(other)}


def _patch_steps(api: machine_apis.MachineApi, there: model.Json, desired: Json) -> list[model.SyncStep]:
    found = object_diff.merge_patch(there, desired)
    return [model.Patch(api, found)] if found else []


def _status_patch_steps(api: machine_apis.MachineApi, there: model.Json, desired: Json) -> list[model.SyncStep]:
    found = object_diff.merge_patch({"status": model.get_status(there)}, {"status": desired})
    return [model.Patch(api, found, "status")] if found else []
