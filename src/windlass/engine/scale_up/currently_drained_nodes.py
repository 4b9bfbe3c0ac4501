"""Pods of currently drained nodes: they are about to be evicted, and need room elsewhere like pending pods.

Mirrors Cluster Autoscaler's CurrentlyDrainedNodesPodListProcessor: the recreatable pods of nodes that are being drained
join the unschedulable ones before those that fit somewhere are filtered out. What they find is held for them, so that
neither a pending pod nor another drain counts on the same room; what they lack is ordered before they are evicted.
Pods that are terminating are left where they are: their controllers have replaced them, or are about to.
"""

from collections.abc import Iterable

from windlass.engine import pod_traits
from windlass.engine.snapshot import Snapshot
from windlass.engine.snapshot.moving import asks_for_devices


def find_recreatable(snapshot: Snapshot, node_names: Iterable[str]) -> list[int]:
    """Rows of the pods on these nodes that their controllers will create anew elsewhere, terminating ones aside."""
    table, rows = snapshot.pods, list[int]()
    for name in node_names:
        node_row = snapshot.nodes.rows.get(name)
        if node_row is not None and snapshot.nodes.alive[node_row]:
            rows += snapshot.pods_on(node_row)
    return [
        row
        for row in rows
        if table.times.get(row, (None, None))[0] is None
        and int(table.kind_ids[row]) not in table.pending_left_out
        and pod_traits.is_recreatable(table.fact(row, "", timeless=True))
    ]


def take_off(snapshot: Snapshot, rows: Iterable[int], counts_originals: bool) -> list[int]:
    """Take pods off the nodes that are being drained, inside the loop's fork; returns the rows that wait now.

    With `counts_originals` an imagined pod stays in place of each, as Cluster Autoscaler has it: it counts for
    anti-affinity and topology spread beside the one that looks for a place.
    """
    taken = list[int]()
    for row in rows:
        shape, node_row = snapshot.shape_of_row(row), int(snapshot.pods.node_rows[row])
        if counts_originals and asks_for_devices(shape.spec):
            continue  # its claims stay allocated on the node that it runs on, so that it fits nowhere else
        snapshot.lift(row)
        if counts_originals:
            snapshot.place(shape, node_row)
        taken.append(row)
    return taken
