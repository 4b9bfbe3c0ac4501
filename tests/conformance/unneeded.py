"""Which unneeded nodes may go, and why others may not yet."""

from tests.conformance import loop
from tests.conformance.outcome import Json, by_section
from windlass.engine import resource_quotas
from windlass.engine.model import durable_memory, facts, node_groups, well_known
from windlass.engine.model.scale_down_state import NodeRemoval, ScaleDownState
from windlass.engine.model.settings import GroupDefaults
from windlass.engine.scale_down import unneeded

NOW_S = 1_000_000.0
NO_MINIMUM: tuple[resource_quotas.Headroom, ...] = ()


def _min_size(case: Json, constants: Json) -> Json:
    names = {kind: [f"{kind}-{i}" for i in range(case[field])] for kind, field in COUNTS.items()}
    nodes = [loop.complete(facts.Node(name, allocatable=SMALL)) for kind in names.values() for name in kind]
    group = loop.make_group("group", nodes, case["target_size"], min_size=case["min_size"])
    pods = [facts.Pod("default", name, name, owner=OWNER, node_name=name, phase="Running") for name in names["drain"]]
    since = dict.fromkeys((*names["empty"], *names["drain"]), 0.0)
    begun = durable_memory.StartedDrain("group", loop.NOW_S, is_empty=True)
    before = durable_memory.DurableMemory(
        scale_down=ScaleDownState(since, frozenset(since)), drains=dict.fromkeys(names["leaving"], begun)
    )
    choice = loop.run(loop.observe([*nodes, ROOM], pods, [group]), loop.PEER, before).story.scale_down.choice
    assert choice is not None, "the loop ended before it chose nodes"
    return {"drain": len(choice.drain), "empty": len(choice.empty)}


COUNTS = {"empty": "empty_candidates", "drain": "drain_candidates", "leaving": "ongoing_deletions"}
SMALL = ((facts.CPU, 1000), (facts.MEMORY, 1000), (facts.PODS, 100))
OWNER = facts.Owner("apps/v1", "StatefulSet", "app", "app")
ROOM = loop.disable_scale_down(loop.complete(facts.Node("room", allocatable=SMALL)))
"""A node of no group, where all pods find room."""


def _reasons(case: Json, constants: Json) -> Json:
    recorded = case["node"]
    node = facts.Node(
        "node",
        annotations={well_known.SCALE_DOWN_DISABLED: "true"} if recorded["scale_down_disabled"] else {},
        conditions=(facts.Condition("Ready", "True" if recorded["ready"] else "False"),),
    )
    times = GroupDefaults(scale_down_unneeded_time_s=case["unneeded_s"], scale_down_unready_time_s=case["unready_s"])
    group = (
        node_groups.NodeGroup("group", case["group"]["min"], 10, case["group"]["target_size"])
        if case["group"]
        else None
    )
    wait_s = None if case["threshold_unavailable"] else unneeded.find_unneeded_time_s(node, times)
    since_s = NOW_S + recorded["unneeded_since_s"]
    asked = unneeded.UnneededNode(node, NodeRemoval(node.name), since_s, group, wait_s)
    removable_nodes = unneeded.find_removable_nodes([asked], {}, resource_quotas.QuotaTracker(NO_MINIMUM), NOW_S)
    return {"reason": str(removable_nodes.kept[0].reason)} if removable_nodes.kept else {}


run = by_section({"min_size": _min_size, "reasons": _reasons})
