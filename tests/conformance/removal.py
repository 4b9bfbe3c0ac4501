"""Whether one node's pods fit on the others."""

from tests.conformance import loop, objects
from tests.conformance.outcome import Json, by_section
from windlass.engine.model import facts
from windlass.engine.model.scale_down_state import NodeRemoval, UnremovableReason

SETTINGS = loop.choose(loop.PEER, "groups", scale_down_utilization_threshold=2.0)
"""No node is too busy to be tried."""
CONTROLLER = facts.Controller("ReplicaSet", "default", "rs", replicas=5)


def remove_one(case: Json, constants: Json) -> object:
    nodes = [loop.complete(objects.node(json)) for json in case["nodes"]]
    tried = [node for node in nodes if node.name == case["node"]]
    observation = loop.observe(
        nodes,
        [objects.pod(json) for json in case["pods"]],
        [loop.make_group("group", tried)],
        controllers={(CONTROLLER.kind, CONTROLLER.namespace, CONTROLLER.name): CONTROLLER},
    )
    trials = loop.probe(observation, SETTINGS).trials
    # A node that does not exist is no candidate of a loop, and Cluster Autoscaler's has no other answer for it.
    missing = NodeRemoval(case["node"], UnremovableReason.NO_NODE_INFO)
    (removal,) = (*trials.removals, *trials.failed) or (missing,)
    if not removal.is_removable:
        return {"reason": str(removal.reason), "removable": False}
    return {
        "daemonset": sorted(observation.snapshot.pod(row).key for row in removal.moves.daemonset),
        "move": sorted(observation.snapshot.pod(row).key for row in removal.moves.move),
        "removable": True,
        "risky": removal.is_risky,
    }


run = by_section({"remove_one": remove_one})
