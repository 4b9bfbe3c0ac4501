"""NodePorts: one holder per port, protocol and address, and one address that stands for all."""

import pytest

from tests.builders import evaluate, feasible, node, pod
from windlass.engine.model import facts
from windlass.engine.model.facts import HostPort
from windlass.engine.predicates import node_ports
from windlass.engine.snapshot import cluster_snapshot as snapshots


def holding(*held: HostPort, name: str = "p", on: str = "") -> facts.Pod:
    return pod(name, on=on, spec=facts.PodSpec(host_ports=held))


TCP = HostPort("0.0.0.0", "TCP", 80)


@pytest.mark.parametrize(
    ("held", "wanted", "conflict"),
    [
        (TCP, TCP, True),
        (TCP, HostPort("10.0.0.1", "TCP", 80), True),
        (HostPort("10.0.0.1", "TCP", 80), TCP, True),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("10.0.0.1", "TCP", 80), True),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("10.0.0.2", "TCP", 80), False),
        (HostPort("::", "TCP", 80), HostPort("10.0.0.1", "TCP", 80), False),
        (HostPort("::", "TCP", 80), HostPort("::", "TCP", 80), True),
        (HostPort("::", "TCP", 80), TCP, True),
        (TCP, HostPort("0.0.0.0", "UDP", 80), False),
        (TCP, HostPort("0.0.0.0", "TCP", 81), False),
    ],
)
def test_a_port_is_held_by_one_pod(held: HostPort, wanted: HostPort, conflict: bool) -> None:
    snapshot = snapshots.build_snapshot([node("a")], [holding(held, name="q", on="a")])
    assert evaluate(snapshot, holding(wanted))["a"] == (node_ports.REFUSAL if conflict else None)


def test_a_port_is_free_again_when_its_last_holder_left() -> None:
    holders = [holding(TCP, name=name, on="a") for name in "qr"]  # both were bound behind the scheduler's back
    snapshot = snapshots.build_snapshot([node("a")], holders)
    snapshot.remove_pod(holders[0].uid)
    assert feasible(snapshot, holding(TCP)) == set()
    snapshot.remove_pod(holders[1].uid)
    assert feasible(snapshot, holding(TCP)) == {"a"}


def test_one_port_in_conflict_is_enough() -> None:
    snapshot = snapshots.build_snapshot([node("a"), node("b")], [holding(TCP, name="q", on="a")])
    assert feasible(snapshot, holding(HostPort("0.0.0.0", "UDP", 53), HostPort("10.0.0.1", "TCP", 80))) == {"b"}
