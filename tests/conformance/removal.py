"""Whether one node's pods fit on the others."""

import numpy as np

from tests.conformance import objects
from tests.conformance.outcome import Json, by_section
from windlass.engine import disruption, facts, searching
from windlass.engine import snapshot as snapshots
from windlass.engine.drain import by_kind, context
from windlass.engine.predicates import config
from windlass.engine.scale_down import removal


def remove_one(case: Json, constants: Json) -> object:
    snapshot = snapshots.build(map(objects.node, case["nodes"]), map(objects.pod, case["pods"]))
    budgets = disruption.Remaining()
    controllers = {("ReplicaSet", "default", "rs"): facts.Controller("ReplicaSet", "default", "rs", replicas=5)}
    judge = by_kind.Judge(snapshot.pods, context.Context(now_s=0.0, budgets=budgets, controllers=controllers))
    everywhere = np.ones(snapshot.nodes.count, bool)
    simulator = removal.RemovalSimulator(snapshot, judge, budgets, everywhere, searching.Search(), config.DEFAULT)
    found = simulator.simulate(case["node"])
    if not found.is_removable:
        return {"reason": str(found.reason), "removable": False}
    return {
        "daemonset": sorted(snapshot.pod(row).key for row in found.moves.daemonset),
        "move": sorted(snapshot.pod(row).key for row in found.moves.move),
        "removable": True,
        "risky": found.is_risky,
    }


run = by_section({"remove_one": remove_one})
