"""What no pod has any more is forgotten: a process that runs for months does not grow with all that it has seen."""

from collections.abc import Iterator

import pytest

from tests.builders import node, pod
from tests.engine.snapshot import column_values
from windlass.engine.model import facts
from windlass.engine.snapshot import cluster_snapshot as snapshots
from windlass.engine.snapshot import pod_table
from windlass.selectors import LabelSelector, Operator, Requirement

NODES = [node(f"n{number}", cpu=64_000, zone=f"z{number % 3}") for number in range(6)]
ALIVE = 60


def job(number: int) -> facts.Pod:
    """A pod like no other: its own labels, requests, port, and a wish to be apart from its like."""
    name = f"job-{number}"
    selector = LabelSelector((Requirement("job", Operator.IN, (name,)),))
    spec = facts.PodSpec(
        requests=(("cpu", 1 + number % 7), ("memory", number)),
        host_ports=(facts.HostPort("0.0.0.0", "TCP", 1000 + number % 40_000),) if number % 3 == 0 else (),
        anti_affinity=(facts.PodAffinityTerm(facts.HOSTNAME, selector, ("default",)),) if number % 3 == 1 else (),
        spread=(facts.SpreadConstraint(facts.ZONE, 1, selector),) if number % 3 == 2 else (),
    )
    return pod(name, on=f"n{number % len(NODES)}" if number % 5 else "", labels={"job": name}, spec=spec)


def live_through(snapshot: snapshots.Snapshot, jobs: int, alive: int) -> Iterator[list[facts.Pod]]:
    """Jobs come one after another, each going when `alive` others have come; those that are there after each."""
    there: list[facts.Pod] = []
    for number in range(jobs):
        there.append(job(number))
        snapshot.add_pod(there[-1])
        if len(there) > alive:
            snapshot.remove_pod(there.pop(0).uid)
        yield there


def count(snapshot: snapshots.Snapshot) -> dict[str, int]:
    return {
        "shapes": len(snapshot.shapes),
        "profiles": len(snapshot.shapes.profiles),
        "kinds": len(snapshot.pods.template_keys),
        "tallies": len(snapshot.topology_counts),
    }


def test_a_snapshot_that_forgets_holds_no_more_than_pods_need() -> None:
    snapshot = snapshots.build_snapshot(NODES, [])
    most = 0
    for there in live_through(snapshot, 3_000, ALIVE):
        for key in column_values.Questions.about(there[-1:]).matching:
            snapshot.counts(key)
        if snapshot.is_cluttered:
            snapshot.forget_unused()
            assert max(count(snapshot).values()) <= 2 * (ALIVE + 1)
        most = max(most, count(snapshot)["shapes"])
    assert most < 1_000


def test_what_is_left_is_judged_as_if_nothing_had_been_forgotten() -> None:
    forgetful, faithful = (snapshots.build_snapshot(NODES, []) for _ in range(2))
    for number, (there, _) in enumerate(
        zip(live_through(forgetful, 200, 20), live_through(faithful, 200, 20), strict=True)
    ):
        if number % 30 == 0:
            forgetful.forget_unused()
        if number % 17 == 0:
            questions = column_values.Questions.about(there[-4:])
            assert column_values.describe(forgetful, questions) == column_values.describe(faithful, questions)
    assert len(forgetful.shapes) < len(faithful.shapes)


def drained(number: int) -> facts.Node:
    """A node like no other: its own hostname, and a taint that says since when it is being emptied."""
    taint = facts.Taint(facts.TO_BE_DELETED, f"{number}", "NoSchedule")
    return node(f"d{number}", labels={facts.HOSTNAME: f"d{number}"}, taints=(taint,))


def test_nodes_that_come_and_go_leave_nothing_behind() -> None:
    snapshot = snapshots.build_snapshot(NODES, [job(1)])
    forgotten = 0
    for number in range(3_000):
        snapshot.add_node(drained(number))
        snapshot.add_pod(pod(f"p{number}", on=f"d{number}"))
        if number >= ALIVE:
            snapshot.remove_node(f"d{number - ALIVE}")  # first, as if its machine had failed
            snapshot.remove_pod(pod_table.pod_identity(pod(f"p{number - ALIVE}")))
        if snapshot.is_cluttered:
            snapshot.forget_unused()
            forgotten += 1
            # Two for each row: a row keeps what its last node had until another takes it.
            assert snapshot.nodes.interned <= 2 * (ALIVE + len(NODES) + 1) + 10
    assert forgotten > 3
    assert not snapshot.orphaned
    hostnames = snapshot.nodes.label_column(facts.HOSTNAME)
    for name, row in snapshot.nodes.rows.items():
        fact = snapshot.nodes.facts[row]
        assert hostnames.values[hostnames.ids[row]] == fact.labels[facts.HOSTNAME] == name
        assert snapshot.nodes.taint_sets[snapshot.nodes.taint_ids[row]] == fact.taints


def test_nodes_that_are_left_are_judged_as_if_no_other_had_been_forgotten() -> None:
    forgetful, faithful = (snapshots.build_snapshot(NODES, []) for _ in range(2))
    for number, (there, _) in enumerate(
        zip(live_through(forgetful, 200, 20), live_through(faithful, 200, 20), strict=True)
    ):
        for snapshot in (forgetful, faithful):
            snapshot.add_node(drained(number))
            if number >= 5:
                snapshot.remove_node(f"d{number - 5}")
        if number % 13 == 0:
            forgetful.forget_unused()
        if number % 7 == 0:
            questions = column_values.Questions.about(there[-4:])
            assert column_values.describe(forgetful, questions) == column_values.describe(faithful, questions)
    assert forgetful.nodes.interned < faithful.nodes.interned


def test_nothing_is_forgotten_inside_a_fork() -> None:
    snapshot = snapshots.build_snapshot(NODES, [job(1)])
    snapshot.fork()
    with pytest.raises(RuntimeError, match="fork"):
        snapshot.forget_unused()
