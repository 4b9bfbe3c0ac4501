"""Provider specs of clouds, as far as scaling reads them: zone, capacity, taints, user data. Pure.

What Machines are made of is not converted: a template that lacks a field would create other Machines than Machine API
does. The mirror of such a MachineSet refers to a template that does not exist, so that it can be scaled and can never
create a Machine. What a provider spec does not state is left out: no instance type stands for an amount of memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windlass import quantity
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machineset_sync import model

Json = Mapping[str, Any]

NOT_CONVERTED_SUFFIX = "-not-converted"

TAINTS_ANNOTATION = f"{machine_apis.CAPACITY_PREFIX}taints"

_GROUP = "infrastructure.cluster.x-k8s.io"

_MIB = 1 << 20

_MAX_NAME_CHARS = 253


@dataclass(frozen=True, slots=True)
class Provider:
    """A kind of provider spec, and the kind of template that Cluster API has for the same cloud."""

    kind: str
    template_version: str
    template_kind: str
    zone: tuple[str, ...] = ()
    """Path of the zone; empty if the provider spec states none."""


PROVIDERS = (
    Provider("AWSMachineProviderConfig", "v1beta2", "AWSMachineTemplate", ("placement", "availabilityZone")),
    Provider("AzureMachineProviderSpec", "v1beta1", "AzureMachineTemplate", ("zone",)),
    Provider("GCPMachineProviderSpec", "v1beta1", "GCPMachineTemplate", ("zone",)),
    Provider("OpenstackProviderSpec", "v1beta1", "OpenStackMachineTemplate", ("availabilityZone",)),
    # A workspace names datacenter and cluster; which zone they are is known to the Infrastructure object alone.
    Provider("VSphereMachineProviderSpec", "v1beta1", "VSphereMachineTemplate"),
)
"""Told apart by kind: the groups of older releases differ."""


def find_provider(value: Json | None) -> Provider | None:
    kind = (value or {}).get("kind")
    return next((provider for provider in PROVIDERS if provider.kind == kind), None)


def not_converted_name(machine_set: str) -> str:
    """The name of the template that the mirror refers to. No template of this name is ever created."""
    return f"{machine_set[: _MAX_NAME_CHARS - len(NOT_CONVERTED_SUFFIX)]}{NOT_CONVERTED_SUFFIX}"


def is_not_converted(machine_set: Json | None) -> bool:
    """True for a mirror in Cluster API that scaling alone is mirrored to."""
    machine = (model.get_spec(machine_set).get("template") or {}).get("spec") or {}
    name = (machine.get("infrastructureRef") or {}).get("name")
    return machine_set is not None and name == not_converted_name(model.get_metadata(machine_set).get("name") or "")


def template_api_version(reference: Json) -> str:
    """The apiVersion of a template that does not exist, for v1beta1 of Cluster API, which refers by version.

    Empty for a template that may exist: its version is the served one.
    """
    known = {provider.template_kind: provider.template_version for provider in PROVIDERS}
    version, name = known.get(reference.get("kind") or ""), str(reference.get("name") or "")
    return f"{_GROUP}/{version}" if version and name.endswith(NOT_CONVERTED_SUFFIX) else ""


def infrastructure(machine_set: str, provider: Provider, value: Json) -> model.MachineInfrastructure:
    """What the mirror states of its Machines."""
    secret = value.get("userDataSecret")
    return model.MachineInfrastructure(
        f"{_GROUP}/{provider.template_version}",
        provider.template_kind,
        not_converted_name(machine_set),
        user_data_secret=_text(secret.get("name")) if isinstance(secret, Mapping) else "",
        failure_domain=_zone(provider, value),
        is_scaling_only=True,
    )


def _zone(provider: Provider, value: Json) -> str:
    found: Any = value
    for name in provider.zone:
        found = found.get(name) if isinstance(found, Mapping) else None
    return _text(found) if provider.zone else ""


def _text(found: object) -> str:
    return found if isinstance(found, str) else ""


def scaling_annotations(machine_set: Json) -> dict[str, str]:
    """Annotations of the mirror for what Machine API states in the spec: taints, and capacity that no annotation has.

    Cluster API has no taints in a Machine, and a provider spec of vSphere states cpus and memory.
    """
    annotations = model.get_annotations(machine_set)
    machine = (model.get_spec(machine_set).get("template") or {}).get("spec") or {}
    found = _capacity((machine.get("providerSpec") or {}).get("value"), annotations)
    if taints := _format_taints(machine.get("taints") or ()):
        found[TAINTS_ANNOTATION] = taints
    return {key: value for key, value in found.items() if key not in annotations}


def _capacity(value: Json | None, annotations: Mapping[str, str]) -> dict[str, str]:
    if (value or {}).get("kind") != "VSphereMachineProviderSpec" or value is None:
        return {}
    found = {}
    cpus, memory_mib = value.get("numCPUs"), value.get("memoryMiB")
    if type(cpus) is int and cpus > 0 and machine_apis.VCPU_ANNOTATION not in annotations:
        found[machine_apis.CPU_CAPACITY] = str(cpus)
    if type(memory_mib) is int and memory_mib > 0 and machine_apis.MEMORY_MB_ANNOTATION not in annotations:
        found[machine_apis.MEMORY_CAPACITY] = str(quantity.Quantity(memory_mib * _MIB * quantity.NANO))
    return found


def _format_taints(taints: Any) -> str:
    """Taints in the form of the annotation; one without key or effect is left out."""
    entries = (
        f"{taint['key']}={taint.get('value') or ''}:{taint['effect']}"
        for taint in taints
        if isinstance(taint, Mapping) and taint.get("key") and taint.get("effect")
    )
    return ",".join(entries)
