"""MachinePool phases and conditions: bootstrap, infrastructure, input validation, phase, Ready. Pure.

v1beta1 conditions have a severity, are sorted with Ready first, and any change moves their time; v1beta2 conditions
have an observed generation, and only a change of status moves their time. BootstrapReady and InfrastructureReady mirror
the provider's Ready condition. InputsValid is windlass's own, present only while False.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from windlass.controllers.machine_pool import api_types, model, owned_objects
from windlass.controllers.machine_pool.model import (
    Condition,
    MachinePool,
    MissingObject,
    ObservedMachinePool,
    ProviderObject,
    UnreachableCluster,
)

INFO, WARNING, ERROR = "Info", "Warning", "Error"

_SEVERITY_ORDER = {ERROR: 0, WARNING: 1, INFO: 2}

_SUMMARIZED_CONDITIONS = (model.BOOTSTRAP_READY, model.INFRASTRUCTURE_READY, model.REPLICAS_READY)
"""Conditions summarized by Ready, in order of precedence among equally severe ones."""


def true_condition(kind: str) -> Condition:
    return Condition(kind, "True")


def false_condition(kind: str, reason: str, severity: str, message: str = "") -> Condition:
    return Condition(kind, "False", reason, message, severity)


def find_condition(conditions: Iterable[Condition], kind: str) -> Condition | None:
    return next((condition for condition in conditions if condition.type == kind), None)


def drop_condition(conditions: Iterable[Condition], kind: str) -> tuple[Condition, ...]:
    return tuple(condition for condition in conditions if condition.type != kind)


def set_v1beta1_condition(conditions: tuple[Condition, ...], new: Condition, now: str) -> tuple[Condition, ...]:
    """Set a v1beta1 condition: Ready first, the others by type. Any change updates the transition time."""
    before = find_condition(conditions, new.type)
    if before is not None and dataclasses.replace(before, last_transition_time=new.last_transition_time) == new:
        new = before
    elif not new.last_transition_time:
        new = dataclasses.replace(new, last_transition_time=now)
    others = [condition for condition in conditions if condition.type != new.type]
    return tuple(sorted([*others, new], key=lambda condition: (condition.type != model.READY, condition.type)))


def set_condition(conditions: tuple[Condition, ...], new: Condition, now: str) -> tuple[Condition, ...]:
    """Set a v1beta2 condition, in place or at the end. Only a change of status updates the transition time."""
    before = find_condition(conditions, new.type)
    since = (
        before.last_transition_time
        if before is not None and before.status == new.status and before.last_transition_time
        else now
    )
    new = dataclasses.replace(new, last_transition_time=since)
    if before is None:
        return (*conditions, new)
    return tuple(new if condition.type == new.type else condition for condition in conditions)


def mirror_ready_condition(ready: Mapping[str, Any] | None, kind: str, fallback: Condition) -> Condition:
    """Mirror a provider's Ready condition under another type, or use the fallback if it has none.

    v1beta2 conditions have no severity. A False one gets Info, so that the summary includes it.
    """
    if ready is None:
        return fallback
    status = str(ready.get("status") or "Unknown")
    severity = str(ready.get("severity") or "")
    return Condition(
        kind,
        status,
        str(ready.get("reason") or ""),
        str(ready.get("message") or ""),
        severity or (INFO if status == "False" else ""),
        last_transition_time=str(ready.get("lastTransitionTime") or ""),
    )


def summarize_ready(conditions: tuple[Condition, ...]) -> Condition | None:
    """Ready: False with the most severe reason, True if no condition is False, None without conditions."""
    known = [found for kind in _SUMMARIZED_CONDITIONS if (found := find_condition(conditions, kind)) is not None]
    if not known:
        return None
    bad = [condition for condition in known if condition.status == "False"]
    if bad:
        worst = min(bad, key=lambda condition: _SEVERITY_ORDER.get(condition.severity, 2))
        return false_condition(model.READY, worst.reason, worst.severity or INFO, worst.message)
    if any(condition.status == "True" for condition in known):
        return true_condition(model.READY)
    return Condition(model.READY, "Unknown", known[0].reason, known[0].message)


@dataclass(frozen=True, slots=True)
class BootstrapResult:
    """Bootstrap data of a pool, and its condition."""

    created: bool | None
    data_secret_name: str | None
    condition: Condition | None = None
    """None leaves the condition unchanged."""
    problem: str = ""


def reconcile_bootstrap(
    pool: MachinePool, config: ProviderObject | MissingObject | None, *, rotate: bool
) -> BootstrapResult:
    """Reconcile bootstrap data: a secret name set by the user is ready; otherwise the config's is awaited.

    The config's name is copied into an empty field only, or always with `rotate_bootstrap_secret`.
    """
    if config is None:
        return _reconcile_data_secret_name(pool)
    if pool.data_secret_name and not pool.is_secret_copied and not rotate:
        return BootstrapResult(True, pool.data_secret_name, true_condition(model.BOOTSTRAP_READY))
    if isinstance(config, MissingObject):
        return _unchanged_bootstrap(pool, problem=describe_missing(config, pool))
    if config.is_deleting:
        return _unchanged_bootstrap(pool)
    return _reconcile_bootstrap_config(pool, config, rotate)


def _reconcile_bootstrap_config(pool: MachinePool, config: ProviderObject, rotate: bool) -> BootstrapResult:
    created = api_types.is_data_secret_created(config.status, config.contract)
    waiting = false_condition(model.BOOTSTRAP_READY, "WaitingForDataSecret", INFO)
    fallback = true_condition(model.BOOTSTRAP_READY) if created else waiting
    condition = mirror_ready_condition(api_types.find_ready_condition(config.status), model.BOOTSTRAP_READY, fallback)
    if not created:
        return BootstrapResult(False, pool.data_secret_name, condition)
    named = api_types.read_data_secret_name(config.status)
    if not named:
        where = f"{config.reference.kind} {pool.namespace}/{config.reference.name}"
        problem = f"bootstrap: {where} is ready but has no status.dataSecretName"
        return BootstrapResult(pool.status.bootstrap_created, pool.data_secret_name, condition, problem)
    keep = bool(pool.data_secret_name) and not rotate
    return BootstrapResult(True, pool.data_secret_name if keep else named, condition)


def _reconcile_data_secret_name(pool: MachinePool) -> BootstrapResult:
    if pool.data_secret_name is None:
        problem = "bootstrap: neither spec.template.spec.bootstrap.configRef nor .dataSecretName is set"
        return _unchanged_bootstrap(pool, problem=problem)
    return BootstrapResult(True, pool.data_secret_name, true_condition(model.BOOTSTRAP_READY))


def _unchanged_bootstrap(pool: MachinePool, problem: str = "") -> BootstrapResult:
    return BootstrapResult(pool.status.bootstrap_created, pool.data_secret_name, None, problem)


def describe_missing(missing: MissingObject, pool: MachinePool) -> str:
    """Message about a missing object."""
    what = f"{missing.reference.kind} {pool.namespace}/{missing.reference.name}"
    if missing.unlabelled:
        labels = " or ".join(f"{model.GROUP}/{version}" for version in api_types.CONTRACT_VERSIONS)
        return f"{what}: CustomResourceDefinition {missing.definition} has no label {labels}"
    if missing.definition:
        return f"{what}: there is no CustomResourceDefinition {missing.definition}"
    return f"{what} not found"


INVALID_CONFIGURATION = "InvalidConfiguration"


@dataclass(frozen=True, slots=True)
class InfrastructureResult:
    """Infrastructure of a pool, and its condition."""

    provisioned: bool | None
    provider_ids: tuple[str, ...]
    replicas: int | None
    condition: Condition | None = None
    """None leaves the condition unchanged."""
    problem: str = ""
    failure: tuple[str, str] = ("", "")
    """(reason, message) of a terminal failure; None if there is none."""
    repeated: tuple[str, ...] = ()
    """Provider IDs that the list contains more than once."""
    has_empty: bool = False
    """True if the list contains an empty provider ID."""


def reconcile_infrastructure(pool: MachinePool, infrastructure: ProviderObject | MissingObject) -> InfrastructureResult:
    """Copy provider IDs and replicas from ready infrastructure."""
    stay = InfrastructureResult(pool.status.infrastructure_provisioned, pool.provider_ids, pool.status.replicas)
    if isinstance(infrastructure, MissingObject):
        return _missing_infrastructure(pool, infrastructure, stay)
    if infrastructure.is_deleting:
        return stay
    provisioned = api_types.is_provisioned(infrastructure.status, infrastructure.contract)
    waiting = false_condition(model.INFRASTRUCTURE_READY, "WaitingForInfrastructure", INFO)
    fallback = true_condition(model.INFRASTRUCTURE_READY) if provisioned else waiting
    ready = api_types.find_ready_condition(infrastructure.status)
    stay = dataclasses.replace(
        stay, provisioned=provisioned, condition=mirror_ready_condition(ready, model.INFRASTRUCTURE_READY, fallback)
    )
    return _copy_infrastructure(pool, infrastructure, stay) if provisioned else stay


def _copy_infrastructure(
    pool: MachinePool, infrastructure: ProviderObject, stay: InfrastructureResult
) -> InfrastructureResult:
    listed = api_types.read_provider_ids(infrastructure.spec)
    ids = tuple(dict.fromkeys(item for item in listed if item))
    replicas = api_types.read_replicas(infrastructure.status)
    repeated = tuple(entry for entry in ids if listed.count(entry) > 1) if len(ids) < len(listed) else ()
    infrastructure_result = dataclasses.replace(stay, repeated=repeated, has_empty="" in listed)
    if not ids and replicas:
        return dataclasses.replace(
            infrastructure_result, replicas=replicas
        )  # replicas are known before their provider IDs
    if not ids and replicas is None and pool.replicas != 0:
        return infrastructure_result  # an empty list does not mean that all Nodes are gone
    return dataclasses.replace(
        infrastructure_result, provider_ids=ids, replicas=len(ids) if replicas is None else replicas
    )


def _missing_infrastructure(
    pool: MachinePool, missing: MissingObject, stay: InfrastructureResult
) -> InfrastructureResult:
    problem = f"infrastructure: {describe_missing(missing, pool)}"
    if missing.definition:
        message = describe_missing(missing, pool)
    else:
        message = f"could not find infra reference of kind {missing.reference.kind} with name {missing.reference.name}"
    condition = false_condition(model.INFRASTRUCTURE_READY, "IncorrectExternalRef", ERROR, message)
    failure = ("", "")
    if pool.status.infrastructure_provisioned and not missing.definition:
        what = f"{missing.reference.kind} {pool.namespace}/{missing.reference.name}"
        gone = f"MachinePool infrastructure resource {what} has been deleted after being ready"
        failure = (INVALID_CONFIGURATION, gone)
    return dataclasses.replace(stay, condition=condition, problem=problem, failure=failure)


_MAX_NAMED_IDS = 10
"""Maximum number of provider IDs in a message; the rest is counted."""


@dataclass(frozen=True, slots=True)
class InputProblem:
    """A reason and message of InputsValid."""

    reason: str
    message: str


def find_input_problems(observed: ObservedMachinePool, verdict: InfrastructureResult) -> list[InputProblem]:
    """Problems in provider objects, provider IDs, and IDs shared with other pools."""
    input_problems = [
        trouble
        for external in (observed.bootstrap, observed.infrastructure)
        for trouble in _check_provider_object(observed.pool, external)
    ]
    if isinstance(observed.nodes, UnreachableCluster):
        input_problems.append(InputProblem(observed.nodes.reason, observed.nodes.message))
    else:
        for provider_id, sharing in sorted(owned_objects.find_shared_provider_ids(observed.nodes).items()):
            message = f"Nodes {', '.join(sharing)} have one spec.providerID: {provider_id}"
            input_problems.append(InputProblem("DuplicateNodes", message))
    if verdict.repeated:
        message = f"spec.providerIDList names more than once: {_join_ids(verdict.repeated)}; each counts once"
        input_problems.append(InputProblem("DuplicateProviderIDs", message))
    if verdict.has_empty:
        input_problems.append(
            InputProblem("EmptyProviderID", "spec.providerIDList has an empty entry, which counts for nothing")
        )
    return input_problems + _check_shared_provider_ids(observed)


def _check_provider_object(pool: MachinePool, external: ProviderObject | MissingObject | None) -> list[InputProblem]:
    if isinstance(external, MissingObject) and external.definition:
        reason = "ContractUnknown" if external.unlabelled else "DefinitionMissing"
        return [InputProblem(reason, describe_missing(external, pool))]
    if isinstance(external, ProviderObject) and (rival := owned_objects.find_other_controller(pool, external)):
        what = f"{external.reference.kind} {pool.namespace}/{external.reference.name}"
        return [InputProblem("AlreadyOwned", f"{what} is controlled by {rival.kind} {rival.name}, and left to it")]
    return []


def _check_shared_provider_ids(observed: ObservedMachinePool) -> list[InputProblem]:
    input_problems = []
    for key in sorted({*observed.older_pools.values(), *observed.younger_pools.values()}):
        lost = [item for item, owner in observed.older_pools.items() if owner == key]
        kept = [entry for entry, owner in observed.younger_pools.items() if owner == key]
        if lost:
            message = f"MachinePool {key} names the same instances and is older: {_join_ids(lost)} count there"
            input_problems.append(InputProblem("ProviderIDClaimedTwice", message))
        if kept:
            message = f"MachinePool {key} names the same instances and is younger: {_join_ids(kept)} count here"
            input_problems.append(InputProblem("ProviderIDClaimedTwice", message))
    return input_problems


def _join_ids(ids: list[str] | tuple[str, ...]) -> str:
    more = f" and {len(ids) - _MAX_NAMED_IDS} more" if len(ids) > _MAX_NAMED_IDS else ""
    return ", ".join(sorted(ids)[:_MAX_NAMED_IDS]) + more


def compute_phase(pool: MachinePool) -> str:
    """The phase of a pool, from its other status fields."""
    status = pool.status
    if pool.is_deleting:
        return model.DELETING
    if status.is_failed:
        return model.FAILED
    if status.infrastructure_provisioned and pool.replicas is not None:
        return _scaling_phase(pool, pool.replicas, status.nodes.ready)
    if status.node_refs:
        return model.PROVISIONED
    if status.bootstrap_created and not status.infrastructure_provisioned:
        return model.PROVISIONING
    return status.phase or model.PENDING


def _scaling_phase(pool: MachinePool, desired: int, ready: int) -> str:
    if desired == ready:
        return model.RUNNING
    if is_replicas_managed_externally(pool):
        return model.SCALING
    return model.SCALING_UP if desired > ready else model.SCALING_DOWN


def is_replicas_managed_externally(pool: MachinePool) -> bool:
    """True if the annotation `replicas-managed-by` is set to anything but `false`."""
    return pool.annotations.get(model.MANAGED_BY_ANNOTATION, "false") != "false"
