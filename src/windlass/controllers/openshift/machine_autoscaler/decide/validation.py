"""Validation: what is wrong with a MachineAutoscaler by itself. Served as a webhook, and asked again at every pass."""

from windlass.controllers.openshift import apis
from windlass.controllers.openshift.machine_autoscaler import facts, names


def check(least: int, most: int) -> list[str]:
    """What is wrong with bounds. That the most may not be 0 is for the definition to say."""
    found = []
    if least < 0 or most < 0:
        found.append("min and max replicas must be greater than 0")
    if most < least:
        found.append("max replicas must be greater than or equal to min")
    return found


def explain(least: int, most: int) -> str:
    """The same in one sentence, with what was found; empty if nothing is wrong."""
    troubles = check(least, most)
    return f"{join(troubles)}: found minReplicas {least}, maxReplicas {most}" if troubles else ""


def check_reference(reference: facts.Reference, supported: frozenset[apis.Api]) -> str:
    """What is wrong with a reference; empty if nothing is."""
    if not reference.name:
        return "invalid MachineAutoscaler target: found no name, expected one"
    api = apis.find(reference.api_version)
    if api in supported and reference.kind == names.TARGET_KIND:
        return ""
    accepted = [f"{each.group}/{version}" for each in apis.BOTH if each in supported for version in each.versions]
    found = f"{reference.api_version} {reference.kind}".strip()
    expected = f"MachineSet of {' or '.join(accepted) or 'an API that this cluster has'}"
    return f"unsupported MachineAutoscaler target: found {found}, expected a {expected}"


def join(troubles: list[str]) -> str:
    """One as it is, several in brackets."""
    return troubles[0] if len(troubles) == 1 else f"[{', '.join(troubles)}]"
