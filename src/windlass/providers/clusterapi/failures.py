"""Failures: why a Machine will never become a node.

A Machine has failed if it, or the infrastructure behind it, says so: `failureReason` or `failureMessage`, where either
version of the API keeps them; the phase Failed; or an `InfrastructureReady` condition that is false with severity Error
while no instance was given yet. Cluster API itself only shows the first, in a field it calls deprecated.
"""

from windlass.engine import facts
from windlass.kube.models import clusterapi

PROVISIONING_FAILED = "ProvisioningFailed"


def find(status: clusterapi.MachineStatus, spec: clusterapi.MachineSpec) -> facts.InstanceError | None:
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
