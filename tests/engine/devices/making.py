"""Small slices, classes and claims for tests. What a test does not name is left at what changes nothing."""

import dataclasses

from tests import builders
from windlass.engine import facts
from windlass.engine.devices import model

GI = (1 << 30) * 10**9
"""Nano-units in a GiB."""
DRIVER = "gpu.example.com"
GPU = model.DeviceClass("gpu", (f'device.driver == "{DRIVER}"',))
ACCEL = "example.com/accel"
STANDS_FOR = dataclasses.replace(GPU, extended_resource_name=ACCEL)
"""Its devices may stand for the resource."""


def device(name: str, *, shared: bool = False, memory: int = 0, **attributes: model.Attribute) -> model.Device:
    """A device; memory in GiB, if it has any."""
    capacity = (("memory", model.Capacity(memory * GI)),) if memory else ()
    return model.Device(name, model.Traits(tuple(sorted(attributes.items())), capacity, shared))


def pool(node: str, *devices: model.Device, name: str = "", of: int = 1, generation: int = 1) -> model.ResourceSlice:
    """A slice of the pool that is named after its node; the only one, unless there are `of` of them."""
    reach = model.Reach(node_name=node)
    return model.ResourceSlice(name or f"slice-{node}", DRIVER, node, generation, of, reach, devices=devices)


def gpus(node: str, count: int) -> model.ResourceSlice:
    return pool(node, *(device(f"gpu-{number}") for number in range(count)))


def wanted(count: int = 1, *selectors: str, mode: str = model.EXACT_COUNT, **more: object) -> model.Wanted:
    made = model.Wanted("r", "gpu", selectors, mode, count)
    return dataclasses.replace(made, **more)  # type: ignore[arg-type]


def asks(*requests: model.Wanted, constraints: tuple[model.Constraint, ...] = ()) -> model.ClaimSpec:
    """What a claim asks for: each of these, in requests r0, r1 …"""
    named = (dataclasses.replace(one, name=f"r{number}") for number, one in enumerate(requests))
    return model.ClaimSpec(tuple(model.Request(one.name, one) for one in named), constraints)


def claim(
    name: str, spec: model.ClaimSpec, *, owner: str = "", on: str = "", device: str = "", by: str = ""
) -> model.ResourceClaim:
    """A claim in `default`; allocated, if it names a node and its device, and used by the pod of this uid."""
    allocation = model.Allocation((model.Result(model.DeviceId(DRIVER, on, device)),)) if on else None
    reserved = (by,) if by else ()
    return model.ResourceClaim("default", name, f"uid-{name}", owner, spec=spec, allocation=allocation,
                               reserved_for=reserved)  # fmt: skip


def pod(name: str, *claims: str, on: str = "", cpu: int = 100) -> facts.Pod:
    """A pod that uses these claims."""
    used = tuple(facts.PodClaim(one, one) for one in claims)
    return builders.pod(name, on=on, spec=facts.PodSpec(requests=(("cpu", cpu),), claims=used))


def accelerated(count: int, *, cpu: int = 100, extended_claim: str = "") -> facts.Pod:
    """A pod that requests so many of a resource for which a device class stands."""
    asked = (facts.ExtendedRequest("container-0-request-0", ACCEL, count),)
    requests = (("cpu", cpu), (ACCEL, count))
    return builders.pod("p", spec=facts.PodSpec(requests=requests, extended=asked, extended_claim=extended_claim))
