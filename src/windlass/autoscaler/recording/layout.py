"""The layout: a whole snapshot as plain values, rows and all.

Which row is whose decides ties, and so may the order in which shapes were met. So a snapshot that is built again has
the same rows for the same nodes and pods, leaves free the rows that were free, and will give them away in the same
order.
"""

from collections.abc import Sequence
from dataclasses import replace

from windlass import releases
from windlass.autoscaler.recording import values
from windlass.autoscaler.recording.changes import Specs
from windlass.engine import dtypes, facts, pods
from windlass.engine.devices import model
from windlass.engine.snapshot import Snapshot
from windlass.engine.storage import Fact


def spell(snapshot: Snapshot, specs: Specs) -> values.Plain:
    """All of it. `specs` then knows the specs that were written."""
    table = snapshot.pods
    shapes = [snapshot.shapes[number] for number in range(len(snapshot.shapes))]
    return {
        "release": values.spell(snapshot.release),
        "visible": sorted(snapshot.shapes.visible),
        "resources": list(snapshot.nodes.resources),
        "shapes": [
            [one.profile.namespace, one.profile.labels, one.profile.terminating, specs.setdefault(one.spec, len(specs))]
            for one in shapes
        ],
        "kinds": [values.spell_kind(kind, specs.setdefault(kind.spec, len(specs))) for kind in table.kinds],
        "specs": [values.spell(spec) for spec in specs],
        "namespaces": [[name, dict(labels)] for name, labels in snapshot.tallies.namespaces.items()],
        "stored": [values.spell_stored(fact) for fact in _list_stored(snapshot)],
        "nodes": [values.spell(node) for node in snapshot.nodes.facts],
        "vacant_nodes": list(snapshot.nodes.vacant),
        "pods": _spell_pods(snapshot),
    }


def build(plain: values.Plain) -> tuple[Snapshot, list[facts.PodSpec], list[pods.Kind]]:
    """The snapshot again, and the specs and kinds that it was written with."""
    snapshot = Snapshot(values.read(releases.Release, plain.get("release", {})))
    specs = [values.read(facts.PodSpec, spec) for spec in plain["specs"]]
    kinds = [values.read_kind(kind, specs) for kind in plain["kinds"]]
    snapshot.show_labels(set(plain["visible"]))
    for name in plain["resources"]:
        snapshot.nodes.resource_column(name)
    for namespace, labels, terminating, spec in plain["shapes"]:
        snapshot.shapes.intern(namespace, dict(labels), specs[spec], terminating)
    for kind in kinds:
        snapshot.pods.kinds.intern(kind)
    snapshot.set_namespaces([facts.Namespace(name, labels) for name, labels in plain["namespaces"]])
    for fact in plain["stored"]:
        values.put_stored(snapshot, fact)
    _add_nodes(snapshot, [values.read(facts.Node, node) for node in plain["nodes"]], plain["vacant_nodes"])
    _add_pods(snapshot, plain["pods"], kinds)
    return snapshot, specs, kinds


def _list_stored(snapshot: Snapshot) -> list[Fact | model.Fact]:
    known, offered = snapshot.storage, snapshot.devices.stock
    return [
        *known.volumes.values(), *known.claims.values(), *known.classes.values(), *known.csi_nodes.values(),
        *known.drivers.values(), *known.capacities.values(), *known.attachments.values(),
        *offered.slices.values(), *offered.taint_rules.values(), *offered.classes.values(),
        *offered.claims.values(),
    ]  # fmt: skip


def _spell_pods(snapshot: Snapshot) -> values.Plain:
    table = snapshot.pods
    return {
        "names": table.names,
        "uids": table.uids,
        "labels": table.labels,
        "kinds": table.kind_ids.tolist(),
        "created": table.created_s.tolist(),
        "times": [[row, *times] for row, times in table.times.items()],
        "health": [[row, health.value] for row, health in table.health.items()],
        "on": [snapshot.pods_on(row) for row in range(snapshot.nodes.count)],
        "homeless": [[name, rows] for name, rows in snapshot.homeless.items() if rows],
        "vacant": list(table.vacant),
    }


def _add_nodes(snapshot: Snapshot, found: Sequence[facts.Node], vacant: Sequence[int]) -> None:
    """What a node that is gone had still counts where all that nodes have is summed up."""
    gone = set(vacant)
    for row, node in enumerate(found):
        snapshot.add_node(replace(node, name=_gone(row)) if row in gone else node)
    for row in vacant:
        snapshot.remove_node(_gone(row))


def _gone(row: int) -> str:
    return f"gone from row {row}"  # no name of a node, and there may be another of its own name


def _add_pods(snapshot: Snapshot, plain: values.Plain, kinds: Sequence[pods.Kind]) -> None:
    vacant = set(plain["vacant"])
    times = {row: (deleted_s, since_s) for row, deleted_s, since_s in plain["times"]}
    health = {row: facts.Health(value) for row, value in plain.get("health", ())}
    home = {row: name for name, rows in plain["homeless"] for row in rows}
    columns = zip(plain["names"], plain["uids"], plain["labels"], plain["created"], plain["kinds"], strict=True)
    for row, (name, uid, labels, created_s, kind) in enumerate(columns):
        if row in vacant:
            snapshot.pods.add(values.make_pod(kinds[kind], ("", _gone(row), (), 0.0), "", None, None))
            snapshot.pods.shape_ids[row] = dtypes.ABSENT
        else:
            own = (name, uid, tuple(labels), created_s)
            pod = values.make_pod(kinds[kind], own, home.get(row, ""), *times.get(row, (None, None)))
            snapshot.add_pod(replace(pod, health=health[row]) if row in health else pod)
    for row in plain["vacant"]:
        snapshot.pods.remove(row)
    for name, rows in plain["homeless"]:
        snapshot.homeless[name][:] = rows
    for node_row, rows in enumerate(plain["on"]):
        for row in rows:
            snapshot.bind(row, node_row)
