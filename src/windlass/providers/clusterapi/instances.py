"""Instances: what a Machine is to the engine.

    with a node                          Running, under the node's own provider id
    on its way out, or marked for it     Deleting
    without a node and failed            Creating, with the error that keeps it from ever becoming one
    without a node                       Creating

A Machine has failed if it, or the infrastructure behind it, says so: `failureReason` or `failureMessage`, where either
version of the API keeps them; the phase Failed; or an `InfrastructureReady` condition that is false with severity Error
while no instance was given yet. Cluster API itself only shows the first, in a field it calls deprecated.
"""

from windlass.engine import facts
from windlass.kube.models import clusterapi
from windlass.providers.clusterapi import provider_ids

PROVISIONING_FAILED = "ProvisioningFailed"
_NO_SPEC = clusterapi.MachineSpec()
_NO_STATUS = clusterapi.MachineStatus()


def describe(machine: clusterapi.Machine, node: facts.Node | None, is_leaving: bool) -> facts.Instance:
    """The instance behind a Machine, given its node, if it has one, and whether it was told to go."""
    spec, status = machine.spec or _NO_SPEC, machine.status or _NO_STATUS
    if is_leaving or is_deleting(machine):
        return facts.Instance(
            _name(provider_ids.Kind.DELETING, machine) if node is None else node.provider_id, "Deleting"
        )
    if node is not None:
        return facts.Instance(node.provider_id)
    if has_node(machine) and spec.provider_id:
        return facts.Instance(spec.provider_id, had_node=True)
    if (error := find_failure(status, spec)) is not None:
        return facts.Instance(_name(provider_ids.Kind.FAILED, machine), "Creating", error)
    return facts.Instance(_name(provider_ids.Kind.PENDING, machine), "Creating")


def is_deleting(machine: clusterapi.Machine) -> bool:
    return machine.meta.deletion_timestamp is not None


def has_node(machine: clusterapi.Machine) -> bool:
    """Does it say that it became a node?"""
    status = machine.status or _NO_STATUS
    return status.node_ref is not None and bool(status.node_ref.name)


def find_failure(
    status: clusterapi.MachineStatus, spec: clusterapi.MachineSpec = _NO_SPEC
) -> facts.InstanceError | None:
    """Why the Machine will never become a node; None as long as it may."""
    old = (status.deprecated.v1beta1 if status.deprecated else None) or clusterapi.Failure()
    reason = status.failure_reason or old.failure_reason
    message = status.failure_message or old.failure_message
    if not (reason or message) and not spec.provider_id:
        broken = _find_broken((*(status.conditions or ()), *(old.conditions or ())))
        reason, message = (broken.reason, broken.message) if broken else (None, None)
    if not (reason or message) and status.phase != "Failed":
        return None
    told = ": ".join(part for part in (reason, message) if part)
    return facts.InstanceError("Other", PROVISIONING_FAILED, told or "Machine provisioning failed")


def _find_broken(conditions: tuple[clusterapi.Condition, ...]) -> clusterapi.Condition | None:
    for condition in conditions:
        if condition.type == "InfrastructureReady" and condition.status == "False" and condition.severity == "Error":
            return condition
    return None


def _name(kind: provider_ids.Kind, machine: clusterapi.Machine) -> str:
    return provider_ids.make(kind, machine.meta.namespace or "", machine.meta.name or "")
