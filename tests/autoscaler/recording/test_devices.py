"""Devices are recorded as everything else is: built again, and changed again, they are the same."""

import dataclasses

import msgspec

from tests import builders
from tests.engine.devices.making import GPU, asks, claim, device, gpus, pod, pool, wanted
from windlass.autoscaler.recording import changes, journal, layout, values
from windlass.engine.devices import model
from windlass.engine.snapshot import Snapshot


def wire(plain: values.Plain) -> values.Plain:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(plain))


def test_devices_and_claims_come_back_and_change_alike() -> None:
    lived = journal.Journal()
    constraint = model.Constraint(frozenset({"r0"}), match="gpu.example.com/numa")
    rich = pool("n", device("a", numa=1, v=model.VersionText("1.0.0"), shared=True, memory=4))
    lived.devices.stock.put_all([GPU, rich, claim("c", asks(wanted(2), constraints=(constraint,)))])
    lived.add_node(dataclasses.replace(builders.node("n"), slices=(gpus("t", 2),)))
    lived.add_pod(pod("p", "c"))
    lived.notes.take()
    built, specs, kinds = layout.build(wire(layout.spell(lived, {})))
    assert _describe(built) == _describe(lived)
    lived.devices.stock.put(claim("c", asks(wanted(2)), on="n", device="a", by="p"))
    lived.devices.stock.remove(rich)
    maker = changes.Maker(built, specs, kinds)
    for change in lived.notes.take():
        maker.make(wire(changes.spell(change)))
    assert _describe(built) == _describe(lived)


def _describe(snapshot: Snapshot) -> list[object]:
    stock = snapshot.devices.stock
    return [stock.slices, stock.classes, stock.claims, snapshot.nodes.facts, snapshot.pod(0)]
