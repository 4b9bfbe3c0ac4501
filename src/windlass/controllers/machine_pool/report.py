"""report: a pool as the API spells it, in either version, and what is to be written of it. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from windlass.controllers.machine_pool import facts, names
from windlass.controllers.machine_pool.decide import ownership
from windlass.kube import times

Json = dict[str, Any]


def patch(before: facts.Pool, after: facts.Pool) -> tuple[Json, Json]:
    """Merge patches (of the object, of its status) that make one of the other; empty where nothing changed."""
    main = difference(_spell_main(before), _spell_main(after))
    status = difference(_spell_any_status(before), _spell_any_status(after))
    return main, {"status": status} if status else {}


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Json:
    """The merge patch from one JSON object to another."""
    changed: Json = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := difference(old, value):
                changed[name] = inner
        elif name not in before or old != value:
            changed[name] = value
    return changed


def _spell_main(pool: facts.Pool) -> Json:
    spec: Json = {}
    if pool.provider_ids:
        spec["providerIDList"] = list(pool.provider_ids)
    if pool.data_secret_name is not None:
        spec["template"] = {"spec": {"bootstrap": {"dataSecretName": pool.data_secret_name}}}
    metadata: Json = {"labels": dict(pool.labels)}
    if pool.finalizers:
        metadata["finalizers"] = list(pool.finalizers)
    if pool.owners:
        metadata["ownerReferences"] = [ownership.spell(owner) for owner in pool.owners]
    return {"metadata": metadata, "spec": spec}


def _spell_any_status(pool: facts.Pool) -> Json:
    return spell_old_status(pool.status) if pool.api_version == names.V1BETA1 else spell_status(pool.status)


def spell_status(status: facts.Status) -> Json:
    """As v1beta2 has it."""
    counts = _spell_counts(status)
    old = {
        "conditions": spell_old_conditions(status.old_conditions),
        **counts,
        "failureReason": status.failure_reason,
        "failureMessage": status.failure_message,
    }
    begun = {
        "bootstrapDataSecretCreated": status.bootstrap_created,
        "infrastructureProvisioned": status.infrastructure_provisioned,
    }
    kept_old = _filled(old)
    return _given(
        {
            "initialization": _given(begun) or None,
            "replicas": status.replicas,
            "readyReplicas": status.ready_replicas,
            "availableReplicas": status.available_replicas,
            "upToDateReplicas": status.up_to_date_replicas,
            "conditions": spell_conditions(status.conditions) or None,
            "deprecated": {"v1beta1": kept_old} if kept_old else None,
            **_spell_common(status),
        }
    )


def spell_old_status(status: facts.Status) -> Json:
    """As v1beta1 has it."""
    new = _given(
        {
            "conditions": spell_conditions(status.conditions) or None,
            "readyReplicas": status.ready_replicas,
            "availableReplicas": status.available_replicas,
            "upToDateReplicas": status.up_to_date_replicas,
        }
    )
    return _given(
        {
            "bootstrapReady": status.bootstrap_created,
            "infrastructureReady": status.infrastructure_provisioned,
            "replicas": status.replicas,
            **_filled(_spell_counts(status)),
            "failureReason": status.failure_reason or None,
            "failureMessage": status.failure_message or None,
            "conditions": spell_old_conditions(status.old_conditions) or None,
            "v1beta2": new or None,
            **_spell_common(status),
        }
    )


def _spell_common(status: facts.Status) -> Json:
    refs = [{"apiVersion": "v1", "kind": "Node", "name": ref.name, "uid": ref.uid} for ref in status.node_refs]
    versions = [{"version": version, "replicas": replicas} for version, replicas in status.versions]
    return {
        "nodeRefs": refs or None,
        "versions": versions or None,
        "phase": status.phase or None,
        "observedGeneration": status.observed_generation,
    }


def _spell_counts(status: facts.Status) -> Json:
    return {
        "readyReplicas": status.nodes.ready,
        "availableReplicas": status.nodes.available,
        "unavailableReplicas": status.nodes.unavailable,
    }


def spell_conditions(conditions: Iterable[facts.Condition]) -> list[Json]:
    """Of the new kind: a message is there even if it is empty."""
    return [
        _given(
            {
                "type": each.type,
                "status": each.status,
                "reason": each.reason,
                "message": each.message,
                "lastTransitionTime": each.since or None,
                "observedGeneration": each.observed_generation,
            }
        )
        for each in conditions
    ]


def spell_old_conditions(conditions: Iterable[facts.Condition]) -> list[Json]:
    """Of the old kind: what is empty is left out."""
    return [
        _filled(
            {
                "type": each.type,
                "status": each.status,
                "severity": each.severity,
                "lastTransitionTime": each.since,
                "reason": each.reason,
                "message": each.message,
            }
        )
        for each in conditions
    ]


def spell_time(seconds: float) -> str:
    return times.spell(seconds)


def _given(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def _filled(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value}
