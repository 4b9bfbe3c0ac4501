"""MachineAutoscaler validation, served as an admission webhook and repeated in each reconcile. Pure."""

from collections.abc import Mapping

from windlass.controllers import admission
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_autoscaler import model


def validate_bounds(least: int, most: int) -> list[str]:
    """Errors in bounds. The CRD itself rejects a maximum of 0."""
    found = []
    if least < 0 or most < 0:
        found.append("min and max replicas must be greater than 0")
    if most < least:
        found.append("max replicas must be greater than or equal to min")
    return found


def explain_bounds(least: int, most: int) -> str:
    """All errors in bounds as one message; empty if they are valid."""
    troubles = validate_bounds(least, most)
    return f"{join_errors(troubles)}: found minReplicas {least}, maxReplicas {most}" if troubles else ""


def validate_target_reference(reference: model.TargetReference, supported: frozenset[machine_apis.MachineApi]) -> str:
    """The error in a target reference; empty if it is valid."""
    if not reference.name:
        return "invalid MachineAutoscaler target: found no name, expected one"
    api = machine_apis.find_machine_api(reference.api_version)
    if api in supported and reference.kind == model.TARGET_KIND:
        return ""
    accepted = [
        f"{machine_api.group}/{version}"
        for machine_api in machine_apis.MACHINE_APIS
        if machine_api in supported
        for version in machine_api.versions
    ]
    found = f"{reference.api_version} {reference.kind}".strip()
    expected = f"MachineSet of {' or '.join(accepted) or 'an API that this cluster has'}"
    return f"unsupported MachineAutoscaler target: found {found}, expected a {expected}"


def join_errors(troubles: list[str]) -> str:
    """Join errors as an aggregate error prints them: several are in brackets."""
    return troubles[0] if len(troubles) == 1 else f"[{', '.join(troubles)}]"


def validating_webhook(asked: admission.AdmissionRequest) -> admission.AdmissionResponse:
    machine_autoscaler = model.parse_machine_autoscaler(
        {"metadata": {"name": ""}, "spec": asked.object.get("spec") or {}}
    )
    return admission.AdmissionResponse(explain_bounds(machine_autoscaler.min, machine_autoscaler.max))


WEBHOOKS: Mapping[str, admission.Webhook] = {"/validate-machineautoscalers": validating_webhook}
