"""Planning a scale-down: which nodes become unneeded, how many are worth trying, and which of them may go."""

from collections.abc import Iterable, Mapping, Sequence

from tests.conformance import objects
from tests.conformance.outcome import Json, by_section
from windlass.engine import disruption, facts, searching
from windlass.engine import snapshot as snapshots
from windlass.engine.drain import by_kind, context, rules
from windlass.engine.scale_down import candidates, planning, returning, trials, unneeded
from windlass.engine.scale_down.removal import Removal
from windlass.engine.scale_down.scene import Scene
from windlass.engine.scale_up import quotas
from windlass.engine.settings import Settings

NOW_S = 1_000_000.0
PEER = Settings.cluster_autoscaler()
LENIENT = context.Options(False, False, False, 0, 0.0)


# ── Unneeded nodes ───────────────────────────────────────────────────────────────────────────────────────────────


def _categorize(case: Json, constants: Json) -> Json:
    nodes = [objects.node(json) for json in case["nodes"]]
    snapshot = snapshots.build(nodes, [objects.pod(json) for json in case["pods"]])
    evicted = [objects.pod(json) for json in case["deletion_status"].get("recentEvictions", ())]
    rows = [snapshot.add_pod(pod) for pod in returning.find_returning(evicted, _missing(case))]
    group = facts.NodeGroup("group", 0, 1000, len(nodes))
    scene = _scene(snapshot, {node.name: group for node in nodes}, [row for row in rows if row is not None])
    enough = candidates.limit_trials(
        0, constants["max_scale_down_parallelism"], constants["scale_down_unneeded_s"], candidates.Pace()
    )
    found = trials.simulate(scene, case["eligible"], enough, PEER)
    failed = {removal.node_name for removal in found.failed}
    names = [node.name for node in nodes]
    return {
        "unneeded": [removal.node_name for removal in found.removals],
        "unremovable": [name for name in names if name in failed or name not in case["eligible"]],
    }


def _missing(case: Json) -> dict[context.ControllerKey, int]:
    """What ReplicaSets want beyond what they have; where none is recorded, one called `rs` has none of its five."""
    default = {"metadata": {"namespace": "default", "name": "rs"}, "spec": {"replicas": 5}}
    return {
        ("ReplicaSet", json["metadata"]["namespace"], json["metadata"]["name"]): json["spec"]["replicas"]
        - json.get("status", {}).get("replicas", 0)
        for json in case.get("replica_sets", [default])
    }


def _scene(snapshot: snapshots.Snapshot, group_of: Mapping[str, facts.NodeGroup], waiting: Sequence[int] = ()) -> Scene:
    budgets = disruption.Remaining()
    judge = by_kind.Judge(snapshot.pods, context.Context(NOW_S, LENIENT, budgets=budgets))
    return Scene(snapshot, list(group_of), group_of, judge, budgets, searching.Search(), returning=waiting)


def _unneeded_limit(case: Json, constants: Json) -> Json:
    resources = ((facts.CPU, 1000), (facts.MEMORY, 10), (facts.PODS, 100))
    nodes = [facts.Node(f"n{i}", allocatable=resources) for i in range(case["nodes"])]
    whole = bool(case["group_options"]) and case["group_options"]["ZeroOrMaxNodeScaling"]
    group = facts.NodeGroup("group", 0, 1000, len(nodes), options=facts.GroupOptions(zero_or_max=whole))
    pace = candidates.Pace(shortest_s=case["update_interval_s"]).look(NOW_S)
    enough = candidates.limit_trials(
        case["previously_unneeded"], case["max_scale_down_parallelism"], case["scale_down_unneeded_s"], pace
    )
    scene = _scene(snapshots.build(nodes, []), {node.name: group for node in nodes})
    return {"unneeded": len(trials.simulate(scene, scene.names, enough, PEER).removals)}


# ── Nodes that may go ────────────────────────────────────────────────────────────────────────────────────────────


def _nodes_to_delete(case: Json, constants: Json) -> Json:
    nodes: dict[str, facts.Node] = {}
    group_of: dict[str, facts.NodeGroup] = {}
    asked: list[unneeded.Unneeded] = []
    for json in case["groups"]:
        options = facts.GroupOptions(zero_or_max=json["all_or_nothing"])
        group = facts.NodeGroup(json["group"], json["min"], 10_000, json["target_size"], options=options)
        for number, recorded in enumerate(_with_others(json)):
            node = objects.node({"metadata": {"name": recorded["name"]}, "status": {"capacity": recorded["capacity"]}})
            nodes[node.name], group_of[node.name] = node, group
            if number < len(json["nodes"]):
                asked.append(unneeded.Unneeded(node, _removal(recorded), 0.0, group))
    bound = quotas.ClusterLimits(minimum=case.get("min_limits", {})).make_quota(quotas.Bound.MINIMUM)
    minimum = quotas.track(quotas.Bound.MINIMUM, [bound], [(node, group_of[node.name].id) for node in nodes.values()])
    scene = _scene(snapshots.build(nodes.values(), []), group_of)
    choice = planning.choose_among(asked, scene, minimum, PEER, NOW_S)
    expected = case["expect"].get("unremovable", {})
    told = {kept.node_name: str(kept.reason) for kept in choice.kept if kept.node_name in expected}
    return {
        "drain": _as_recorded(choice.drain, case["expect"]["drain"]),
        "empty": _as_recorded(choice.empty, case["expect"]["empty"]),
    } | ({"unremovable": told} if expected else {})


def _with_others(json: Json) -> Iterable[Json]:
    """The nodes recorded, and those that are not: the group has as many as it should unless its name says otherwise."""
    yield from json["nodes"]
    if "partially-registered" not in json["group"] and json["nodes"]:
        for number in range(json["target_size"] - len(json["nodes"])):
            yield json["nodes"][0] | {"name": f"{json['group']}-other-{number}"}


def _removal(recorded: Json) -> Removal:
    moves = rules.Moves(
        tuple(range(recorded["pods_to_move"])),
        tuple(range(recorded["daemonset_pods"])),
        tuple(range(recorded["on_completion_pods"])),
    )
    return Removal(recorded["name"], moves=moves, is_risky=recorded["risky"])


def _as_recorded(found: tuple[Removal, ...], expected: list[str]) -> list[str]:
    """The peer goes through a map, so that the order of its answer says nothing."""
    names = [removal.node_name for removal in found]
    return expected if sorted(names) == sorted(expected) else names


run = by_section({"categorize": _categorize, "unneeded_limit": _unneeded_limit, "nodes_to_delete": _nodes_to_delete})
