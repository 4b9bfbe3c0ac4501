"""Which unneeded nodes may go, and why others may not yet."""

from tests.conformance.outcome import Json, by_section
from windlass.engine import facts
from windlass.engine.drain import rules
from windlass.engine.scale_down import eligibility, unneeded
from windlass.engine.scale_down.removal import Removal
from windlass.engine.scale_up import quotas
from windlass.engine.settings import GroupDefaults

NOW_S = 1_000_000.0
NO_MINIMUM: tuple[quotas.Headroom, ...] = ()


def _min_size(case: Json, constants: Json) -> Json:
    group = facts.NodeGroup("group", case["min_size"], 1000, case["target_size"])
    nodes = [_describe(facts.Node(f"empty-{i}"), group, pods=0) for i in range(case["empty_candidates"])]
    nodes += [_describe(facts.Node(f"drain-{i}"), group, pods=1) for i in range(case["drain_candidates"])]
    being_deleted = {group.id: case["ongoing_deletions"]}
    found = unneeded.find_removable(nodes, being_deleted, quotas.Tracker(NO_MINIMUM), NOW_S)
    return {"drain": len(found.drain), "empty": len(found.empty)}


def _describe(node: facts.Node, group: facts.NodeGroup, pods: int) -> unneeded.Unneeded:
    removal = Removal(node.name, moves=rules.Moves(tuple(range(pods))))
    return unneeded.Unneeded(node, removal, 0.0, group)


def _reasons(case: Json, constants: Json) -> Json:
    recorded = case["node"]
    node = facts.Node(
        "node",
        annotations={eligibility.SCALE_DOWN_DISABLED: "true"} if recorded["scale_down_disabled"] else {},
        conditions=(facts.Condition("Ready", "True" if recorded["ready"] else "False"),),
    )
    times = GroupDefaults(scale_down_unneeded_time_s=case["unneeded_s"], scale_down_unready_time_s=case["unready_s"])
    group = facts.NodeGroup("group", case["group"]["min"], 10, case["group"]["target_size"]) if case["group"] else None
    wait_s = None if case["threshold_unavailable"] else unneeded.find_wait_s(node, times)
    since_s = NOW_S + recorded["unneeded_since_s"]
    asked = unneeded.Unneeded(node, Removal(node.name), since_s, group, wait_s)
    found = unneeded.find_removable([asked], {}, quotas.Tracker(NO_MINIMUM), NOW_S)
    return {"reason": str(found.kept[0].reason)} if found.kept else {}


run = by_section({"min_size": _min_size, "reasons": _reasons})
