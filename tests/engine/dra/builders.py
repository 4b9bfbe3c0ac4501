"""Small slices, classes and claims for tests. What a test does not name is left at what changes nothing."""

import dataclasses

from tests import builders
from windlass.engine.model import dynamic_resources, facts

GI = (1 << 30) * 10**9
"""Nano-units in a GiB."""
DRIVER = "gpu.example.com"
GPU = dynamic_resources.DeviceClass("gpu", (f'device.driver == "{DRIVER}"',))
ACCEL = "example.com/accel"
STANDS_FOR = dataclasses.replace(GPU, extended_resource_name=ACCEL)
"""Its devices may stand for the resource."""


def device(
    name: str, *, shared: bool = False, memory: int = 0, **attributes: dynamic_resources.AttributeValue
) -> dynamic_resources.Device:
    """A device; memory in GiB, if it has any."""
    capacity = (("memory", dynamic_resources.DeviceCapacity(memory * GI)),) if memory else ()
    return dynamic_resources.Device(
        name, dynamic_resources.DeviceTraits(tuple(sorted(attributes.items())), capacity, shared)
    )


def pool(
    node: str, *devices: dynamic_resources.Device, name: str = "", of: int = 1, generation: int = 1
) -> dynamic_resources.ResourceSlice:
    """A slice of the pool that is named after its node; the only one, unless there are `of` of them."""
    reach = dynamic_resources.NodeReach(node_name=node)
    return dynamic_resources.ResourceSlice(
        name or f"slice-{node}", DRIVER, node, generation, of, reach, devices=devices
    )


def gpus(node: str, count: int) -> dynamic_resources.ResourceSlice:
    return pool(node, *(device(f"gpu-{number}") for number in range(count)))


def wanted(
    count: int = 1, *selectors: str, mode: str = dynamic_resources.ALLOCATION_MODE_EXACT_COUNT, **more: object
) -> dynamic_resources.ExactDeviceRequest:
    made = dynamic_resources.ExactDeviceRequest("r", "gpu", selectors, mode, count)
    return dataclasses.replace(made, **more)  # type: ignore[arg-type]


def asks(
    *requests: dynamic_resources.ExactDeviceRequest, constraints: tuple[dynamic_resources.DeviceConstraint, ...] = ()
) -> dynamic_resources.ClaimSpec:
    """What a claim asks for: each of these, in requests r0, r1 …"""
    named = (
        dataclasses.replace(exact_device_request, name=f"r{number}")
        for number, exact_device_request in enumerate(requests)
    )
    return dynamic_resources.ClaimSpec(
        tuple(dynamic_resources.DeviceRequest(one.name, one) for one in named), constraints
    )


def claim(
    name: str, spec: dynamic_resources.ClaimSpec, *, owner: str = "", on: str = "", device: str = "", by: str = ""
) -> dynamic_resources.ResourceClaim:
    """A claim in `default`; allocated, if it names a node and its device, and used by the pod of this uid."""
    allocation = (
        dynamic_resources.ClaimAllocation(
            (dynamic_resources.DeviceAllocation(dynamic_resources.DeviceId(DRIVER, on, device)),)
        )
        if on
        else None
    )
    reserved = (by,) if by else ()
    return dynamic_resources.ResourceClaim("default", name, f"uid-{name}", owner, spec=spec, allocation=allocation,
                               reserved_for=reserved)  # fmt: skip


def pod(name: str, *claims: str, on: str = "", cpu: int = 100) -> facts.Pod:
    """A pod that uses these claims."""
    used = tuple(facts.PodClaim(item, item) for item in claims)
    return builders.pod(name, on=on, spec=facts.PodSpec(requests=(("cpu", cpu),), claims=used))


def accelerated(count: int, *, cpu: int = 100, extended_claim: str = "") -> facts.Pod:
    """A pod that requests so many of a resource for which a device class stands."""
    asked = (facts.ExtendedRequest("container-0-request-0", ACCEL, count),)
    requests = (("cpu", cpu), (ACCEL, count))
    return builders.pod("p", spec=facts.PodSpec(requests=requests, extended=asked, extended_claim=extended_claim))
