"""Devices and drivers that a new node would come with, as annotations say."""

from collections.abc import Mapping
from dataclasses import dataclass

from windlass import selectors
from windlass.engine.devices import model
from windlass.kube import fields
from windlass.providers.clusterapi import capacity, keys

_INT32_MAX = 2**31 - 1
GPU = "gpu"
MAX_DEVICES = 1024
"""Devices of one node. Each is an object: a count that no node has would fill the memory."""


@dataclass(frozen=True, slots=True)
class Devices:
    """Devices that a node's driver would publish."""

    driver: str
    type: str
    count: int


def read_devices(annotations: Mapping[str, str]) -> Devices | None:
    """GPUs of a DRA driver. InvalidField if their number cannot be read."""
    driver = annotations.get(keys.DRA_DRIVER, "")
    count = capacity.read_count(annotations, keys.GPU_COUNT).value() if driver else 0
    if count > MAX_DEVICES:
        raise fields.InvalidField(keys.at(keys.GPU_COUNT), annotations[keys.GPU_COUNT], f"at most {MAX_DEVICES}")
    return Devices(driver, GPU, count) if count else None


def offer(found: Devices | None, node_name: str) -> model.Slices:
    """The slices that the driver would publish of a node: one pool, named after it."""
    if found is None:
        return ()
    traits = model.Traits(attributes=(("type", found.type),))
    made = tuple(model.Device(f"{found.type}-{number}", traits) for number in range(found.count))
    reach = model.Reach(node_name=node_name)
    return (model.ResourceSlice(f"{node_name}-{found.driver}", found.driver, node_name, reach=reach, devices=made),)


def read_csi_drivers(annotations: Mapping[str, str]) -> tuple[tuple[str, int | None], ...]:
    """(driver, volumes that it attaches to a node) for each; None: no limit. Entries that cannot be read are left out.

    `ebs.csi.aws.com=25,efs.csi.aws.com=0`; zero is no limit.
    """
    drivers: list[tuple[str, int | None]] = []
    for entry in annotations.get(keys.CSI_DRIVER, "").split(","):
        name, equals, text = (part.strip() for part in entry.partition("="))
        limit = selectors.parse_int64(text)
        if name and equals and limit is not None and 0 <= limit <= _INT32_MAX:
            drivers.append((name, limit or None))
    return tuple(drivers)
