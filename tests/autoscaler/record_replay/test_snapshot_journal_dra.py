"""Devices are recorded as everything else is: built again, and changed again, they are the same."""

import dataclasses

import msgspec

from tests import builders
from tests.engine.dra.builders import GPU, asks, claim, device, gpus, pod, pool, wanted
from windlass.autoscaler.record_replay import snapshot_journal, value_codec
from windlass.engine.model import dynamic_resources
from windlass.engine.snapshot.cluster_snapshot import Snapshot


def wire(plain: value_codec.Plain) -> value_codec.Plain:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(plain))


def test_devices_and_claims_come_back_and_change_alike() -> None:
    lived = snapshot_journal.JournaledSnapshot()
    constraint = dynamic_resources.DeviceConstraint(frozenset({"r0"}), match="gpu.example.com/numa")
    rich = pool("n", device("a", numa=1, v=dynamic_resources.VersionValue("1.0.0"), shared=True, memory=4))
    lived.devices.inventory.put_all([GPU, rich, claim("c", asks(wanted(2), constraints=(constraint,)))])
    lived.add_node(dataclasses.replace(builders.node("n"), slices=(gpus("t", 2),)))
    lived.add_pod(pod("p", "c"))
    lived.change_log.take()
    built, specs, kinds = snapshot_journal.decode_snapshot(wire(snapshot_journal.encode_snapshot(lived, {})))
    assert _describe(built) == _describe(lived)
    lived.devices.inventory.put(claim("c", asks(wanted(2)), on="n", device="a", by="p"))
    lived.devices.inventory.remove(rich)
    maker = snapshot_journal.ChangeApplier(built, specs, kinds)
    for change in lived.change_log.take():
        maker.apply(wire(snapshot_journal.encode_change(change)))
    assert _describe(built) == _describe(lived)


def _describe(snapshot: Snapshot) -> list[object]:
    stock = snapshot.devices.inventory
    return [stock.slices, stock.classes, stock.claims, snapshot.nodes.facts, snapshot.pod(0)]
