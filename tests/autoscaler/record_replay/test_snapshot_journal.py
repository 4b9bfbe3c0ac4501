"""A snapshot that is built again, and changed again, is the same to the last row."""

from dataclasses import replace
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from tests.engine.snapshot.test_cluster_snapshot_histories import Pool, pools
from windlass.autoscaler.record_replay import snapshot_journal, value_codec
from windlass.engine.model import facts
from windlass.engine.snapshot.cluster_snapshot import Snapshot


def describe(snapshot: Snapshot) -> dict[str, Any]:
    """Everything that a decision could depend on, by row."""
    nodes, pods = snapshot.nodes, snapshot.pods
    return {
        "nodes": [nodes.facts[row] if nodes.alive[row] else None for row in range(nodes.count)],
        "names": dict(nodes.rows),
        "amounts": (list(nodes.resources), nodes.allocatable.tolist(), nodes.free.tolist()),
        "vacant": (nodes.vacant, pods.vacant),
        "pods": {row: snapshot.pod(row) for row in pods.rows.values()},
        "on": [snapshot.pods_on(row) for row in range(nodes.count)],
        "homeless": {name: rows for name, rows in snapshot.orphaned.items() if rows},
        "waiting": snapshot.pending(),
        "shapes": [snapshot.shapes[number] for number in range(len(snapshot.shapes))],
        "numbers": (pods.shape_ids.tolist(), pods.template_ids.tolist(), snapshot.shapes.visible),
        "namespaces": snapshot.topology_counts.namespaces,
        "claims": snapshot.storage.claims,
    }


STEPS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 50)), max_size=40)
HEALTH = list(facts.PodHealth)


def step(snapshot: Snapshot, pool: Pool, what: int, which: int) -> None:
    every = [*pool.pods, *pool.replicas]
    pod, node = every[which % len(every)], pool.nodes[which % len(pool.nodes)]
    match what:
        case 0:
            snapshot.add_node(node)
        case 1:
            if node.name in snapshot.nodes.rows:
                snapshot.remove_node(node.name)
        case 2:
            names = ["", *(node.name for node in pool.nodes), "gone"]
            health = HEALTH[which % 2]
            snapshot.add_pod(replace(pod, node_name=names[which % len(names)], phase="Running", health=health))
        case 3:
            phase, reason = "Succeeded" if which % 3 == 0 else "Pending", "SchedulerError" if which % 2 else ""
            snapshot.add_pod(replace(pod, phase=phase, deleted_s=float(which), scheduling_reason=reason))
        case 4:
            snapshot.remove_pod(pod.uid)
        case 5:
            snapshot.set_namespaces(
                facts.Namespace(name, {"n": str(which)}) for name in list(strategies.NAMESPACES)[: which % 3]
            )
            snapshot.storage.put(facts.PersistentVolumeClaim("a", f"c{which % 3}", request_bytes=which))
        case 6:
            if pod.uid in snapshot.pods.rows:
                snapshot.set_health(pod.uid, HEALTH[which % 3])


def wire(plain: value_codec.Plain) -> value_codec.Plain:
    """Through a file."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(plain))


@given(pools(), STEPS, STEPS)
def test_what_changes_is_changed_alike_in_a_snapshot_that_is_built_again(
    pool: Pool, before: list[tuple[int, int]], after: list[tuple[int, int]]
) -> None:
    lived = snapshot_journal.JournaledSnapshot()
    for what, which in before:
        step(lived, pool, what, which)
    specs: snapshot_journal.SpecNumbers = {}
    lived.change_log.take()
    built, known, kinds = snapshot_journal.decode_snapshot(wire(snapshot_journal.encode_snapshot(lived, specs)))
    assert describe(built) == describe(lived)
    maker = snapshot_journal.ChangeApplier(built, known, kinds)
    for what, which in after:
        count, generations = len(lived.pods.template_keys), (lived.generation, built.generation)
        step(lived, pool, what, which)
        new = lived.pods.template_keys.values[count:]
        first = len(specs)
        spelled = [value_codec.encode_pod_template(kind, specs.setdefault(kind.spec, len(specs))) for kind in new]
        maker.add_specs(wire([value_codec.encode_value(spec) for spec in list(specs)[first:]]), wire(spelled))
        for change in lived.change_log.take():
            maker.apply(wire(snapshot_journal.encode_change(change)))
        assert describe(built) == describe(lived)
        grown = lived.generation - generations[0], built.generation - generations[1]
        assert (grown[0] > 0) == (grown[1] > 0)
