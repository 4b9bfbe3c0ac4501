"""Rules: what a server lets MachineSets and Machines of Machine API say of authority. Kept here as well."""

from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]

WANTED = ("MachineAPI", "ClusterAPI")
MIGRATING = "Migrating"
_DIRECT = (
    "The authoritativeAPI field must not transition directly from MachineAPI to ClusterAPI or vice versa. "
    "It must transition through Migrating."
)
_FALLEN = (
    "synchronizedGeneration must not decrease unless authoritativeAPI is transitioning from Migrating to another value"
)


def complete(spec: Json, *, is_set: bool) -> dict[str, Any]:
    """A spec with what a server fills in."""
    return {"authoritativeAPI": WANTED[0], **({"replicas": 1} if is_set else {}), **spec}


def check_spec(spec: Json) -> list[str]:
    found = spec.get("authoritativeAPI") or WANTED[0]
    supported = ", ".join(f'"{each}"' for each in WANTED)
    return (
        []
        if found in WANTED
        else [f'spec.authoritativeAPI: Unsupported value: "{found}": supported values: {supported}']
    )


def check_status(before: Json, after: Json) -> list[str]:
    """What is wrong with a status after another; nothing if it may follow."""
    was, now = before.get("authoritativeAPI"), after.get("authoritativeAPI")
    found = []
    if was and not now:
        found.append('status: Invalid value: "object": authoritativeAPI may not be removed once set')
    if was and now and now != was and MIGRATING not in (was, now):
        found.append(f'status.authoritativeAPI: Invalid value: "string": {_DIRECT}')
    recorded, leaves = before.get("synchronizedGeneration"), was == MIGRATING and now != MIGRATING
    if recorded is not None and not leaves and (after.get("synchronizedGeneration") or 0) < recorded:
        found.append(f'status.synchronizedGeneration: Invalid value: "object": {_FALLEN}')
    return found
