"""The manifest: a MachineDeployment as it should be, of templates that are named by reference, in either version.

Selector and labels are spelled out, although Cluster API would fill them in: what an apply leaves out and nobody else
owns may be taken away by the next one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass import errors
from windlass.controllers.worker_pools import annotations, machine_deployments
from windlass.controllers.worker_pools.sizes import Limits

Json = dict[str, Any]

V1BETA1 = f"{machine_deployments.GROUP}/v1beta1"
_LABEL_CHARACTERS = 63
_WHOLE_VERSION = re.compile(r"v?\d+\.\d+\.\d+\S*", re.ASCII)
"""`1.36` names no version that a Machine could have: then the templates say which it is."""


class Incomplete(errors.WindlassError):
    """No MachineDeployment can be made of what is given."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What machines of a pool are made of, as Cluster API has it in a Machine's spec."""

    bootstrap: Mapping[str, Any] = field(default_factory=dict)
    """`configRef`, or `dataSecretName`."""
    infrastructure: Mapping[str, Any] = field(default_factory=dict)
    """A reference: `apiGroup` (or `apiVersion`), `kind`, `name`."""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A MachineDeployment that is wanted."""

    api_version: str
    namespace: str
    name: str
    cluster: str
    machine: Machine
    limits: Limits | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of its Machines, besides those that tell whose they are."""


def read_machine(given: Mapping[str, Any], version: str = "") -> Machine:
    """Out of a pool that names its templates as Cluster API does."""
    return Machine(given.get("bootstrap") or {}, given.get("infrastructureRef") or {}, version)


def spell(wanted: Wanted, replicas: int | None) -> Json:
    """What is applied. Replicas of None are left out. `Incomplete` if a reference is missing or lacks something."""
    if len(wanted.name) > _LABEL_CHARACTERS:
        found, most = len(wanted.name), _LABEL_CHARACTERS
        raise Incomplete(f"MachineDeployment {wanted.name}: found {found} characters, expected {most} at most")
    own = {
        machine_deployments.CLUSTER_NAME_LABEL: wanted.cluster,
        machine_deployments.DEPLOYMENT_NAME_LABEL: wanted.name,
    }
    metadata: Json = {
        "name": wanted.name,
        "namespace": wanted.namespace,
        "labels": {machine_deployments.CLUSTER_NAME_LABEL: wanted.cluster},
    }
    if bounds := annotations.spell(wanted.limits):
        metadata["annotations"] = bounds
    spec: Json = {
        "clusterName": wanted.cluster,
        "selector": {"matchLabels": own},
        "template": {"metadata": {"labels": {**wanted.labels, **own}}, "spec": _spell_machine(wanted)},
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return {"apiVersion": wanted.api_version, "kind": "MachineDeployment", "metadata": metadata, "spec": spec}


def _spell_machine(wanted: Wanted) -> Json:
    machine = wanted.machine
    spec: Json = {
        "clusterName": wanted.cluster,
        "bootstrap": _spell_bootstrap(wanted),
        "infrastructureRef": _spell_reference(wanted, machine.infrastructure, "infrastructureRef"),
    }
    if _WHOLE_VERSION.fullmatch(machine.version):
        spec["version"] = f"v{machine.version.removeprefix('v')}"
    return spec


def _spell_bootstrap(wanted: Wanted) -> Json:
    given = wanted.machine.bootstrap
    if given.get("configRef"):
        return {"configRef": _spell_reference(wanted, given["configRef"], "bootstrap.configRef")}
    if given.get("dataSecretName"):
        return {"dataSecretName": given["dataSecretName"]}
    raise Incomplete("bootstrap: found nothing, expected configRef or dataSecretName")


def _spell_reference(wanted: Wanted, given: Mapping[str, Any], path: str) -> Json:
    """v1beta2 has the group alone; v1beta1 the version as well, and the namespace."""
    for name in ("kind", "name"):
        if not given.get(name):
            raise Incomplete(f"{path}.{name}: found nothing, expected one")
    version = given.get("apiVersion") or ""
    named = {"kind": given["kind"], "name": given["name"]}
    if wanted.api_version == V1BETA1:
        if not version:
            raise Incomplete(f"{path}.apiVersion: found nothing, expected one: {V1BETA1} refers by version")
        return {"apiVersion": version, **named, "namespace": wanted.namespace}
    group = given.get("apiGroup") or version.partition("/")[0]
    if not group:
        raise Incomplete(f"{path}.apiGroup: found nothing, expected one")
    return {"apiGroup": group, **named}
