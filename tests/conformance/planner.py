"""Planning a scale-down: which nodes become unneeded, how many are worth trying, and which of them may go."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tests.conformance import loop, objects
from tests.conformance.outcome import Json, by_section
from windlass.engine.model import durable_memory, facts, node_groups, scale_down_state, well_known
from windlass.engine.model.scale_down_state import NodeRemoval, ScaleDownState
from windlass.engine.model.settings import Bounds, Settings
from windlass.engine.observation import Observation

LENIENT = loop.choose(
    loop.choose(loop.PEER, "groups", scale_down_utilization_threshold=2.0),
    "drain",
    skip_nodes_with_system_pods=False,
    skip_nodes_with_local_storage=False,
    skip_nodes_with_custom_controller_pods=False,
    blocking_system_pod_distruption_timeout_s=0.0,
)
"""No drain rule and no utilization keeps a node."""
LONG_AGO_S = 0.0
REQUESTS_NOTHING = facts.PodSpec()
OWNER = facts.Owner("apps/v1", "ReplicaSet", "app", "app")


# ── Unneeded nodes ───────────────────────────────────────────────────────────────────────────────────────────────


def _categorize(case: Json, constants: Json) -> Json:
    settings = loop.choose(LENIENT, "groups", scale_down_unneeded_time_s=constants["scale_down_unneeded_s"])
    settings = loop.choose(settings, "scale_down", max_scale_down_parallelism=constants["max_scale_down_parallelism"])
    # Cluster Autoscaler injects recently evicted pods, too, but its loop forgets them at once; hence the deviation.
    settings = loop.choose(settings, "deviations", hold_room_for_evicted_pods=True)
    evicted = [_evict(objects.pod(json)) for json in case["deletion_status"].get("recentEvictions", ())]
    observation = _observe(case, evicted)
    begun = durable_memory.StartedDrain("group", loop.NOW_S, is_empty=False)
    evaluation = loop.probe(
        observation, settings, durable_memory.DurableMemory(drains={pod.node_name: begun for pod in evicted})
    )
    names = [json["metadata"]["name"] for json in case["nodes"]]
    unneeded = {removal.node_name for removal in evaluation.trials.removals}
    return {
        "unneeded": [name for name in names if name in unneeded],
        "unremovable": [name for name in names if name not in unneeded],
    }


def _observe(case: Json, evicted: list[facts.Pod]) -> Observation:
    """The recorded nodes, and one for the pods that run on none of them. Those that are not eligible are annotated.

    Nodes were recorded in the order in which they are tried; the loop would try empty ones first, so none is empty.
    """
    nodes = [loop.complete(objects.node(json)) for json in case["nodes"]]
    nodes = [node if node.name in case["eligible"] else loop.disable_scale_down(node) for node in nodes]
    group = loop.make_group("group", nodes)
    pods = [*(objects.pod(json) for json in case["pods"]), *evicted, *_stand_ins(case)]
    pods += [_pod(name, "filler", {}, facts.PodSpec(tolerations=(TOLERATION,))) for name in case["eligible"]]
    controllers = {
        ("ReplicaSet", controller.namespace, controller.name): controller for controller in _replica_sets(case)
    }
    return loop.observe([*nodes, ELSEWHERE], pods, [group], controllers=controllers)


TOLERATION = facts.Toleration("tests.windlass/elsewhere", "Exists", "", "")
ELSEWHERE = loop.complete(
    facts.Node("elsewhere", taints=(facts.Taint(TOLERATION.key, "", "NoSchedule"),), allocatable=((facts.PODS, 1_000),))
)
"""A node of no group that takes pods which request nothing and tolerate its taint."""


def _evict(pod: facts.Pod) -> facts.Pod:
    """The pod on its way out, of a node that is being drained."""
    return replace(
        pod, node_name=pod.node_name or ELSEWHERE.name, deleted_s=loop.NOW_S + 30.0, uid=f"evicted-{pod.key}"
    )


def _replica_sets(case: Json) -> Iterator[facts.Controller]:
    default = {"metadata": {"namespace": "default", "name": "rs"}, "spec": {"replicas": 5, "template": {}}}
    for json in case.get("replica_sets", [default]):
        yield objects.controller("ReplicaSet", json)


def _stand_ins(case: Json) -> Iterator[facts.Pod]:
    """The pods that recorded ReplicaSets have by their status; the table lists none of them."""
    for json in case.get("replica_sets", ()):
        namespace, name = json["metadata"]["namespace"], json["metadata"]["name"]
        owner = replace(OWNER, name=name, uid=json["metadata"].get("uid", name))
        for number in range(json.get("status", {}).get("replicas", 0)):
            key = f"{name}-{number}"
            yield facts.Pod(namespace, key, key, owner=owner, node_name=ELSEWHERE.name, phase="Running")


def _unneeded_limit(case: Json, constants: Json) -> Json:
    resources = ((facts.CPU, 1000), (facts.MEMORY, 10), (facts.PODS, 100))
    nodes = [loop.complete(facts.Node(f"n{i}", allocatable=resources)) for i in range(case["nodes"])]
    whole = bool(case["group_options"]) and case["group_options"]["ZeroOrMaxNodeScaling"]
    group = loop.make_group("group", nodes, options=node_groups.GroupOptions(zero_or_max=whole))
    settings = loop.choose(LENIENT, "groups", scale_down_unneeded_time_s=case["scale_down_unneeded_s"])
    settings = loop.choose(settings, "scale_down", max_scale_down_parallelism=case["max_scale_down_parallelism"])
    before = [node.name for node in nodes[: case["previously_unneeded"]]]
    pace = scale_down_state.LoopInterval(shortest_s=case["update_interval_s"])
    state = ScaleDownState(dict.fromkeys(before, loop.NOW_S), frozenset(before), pace=pace)
    evaluation = loop.probe(loop.observe(nodes, [], [group]), settings, durable_memory.DurableMemory(scale_down=state))
    return {"unneeded": len(evaluation.trials.removals)}


# ── Nodes that may go ────────────────────────────────────────────────────────────────────────────────────────────


def _nodes_to_delete(case: Json, constants: Json) -> Json:
    groups = [_Group(json) for json in case["groups"]]
    nodes = [node for group in groups for node in group.nodes]
    pods = [pod for group in groups for pod in group.pods]
    asked = {recorded["name"]: LONG_AGO_S for json in case["groups"] for recorded in json["nodes"]}
    observation = loop.observe([*nodes, ROOM], pods, [group.group for group in groups])
    before = durable_memory.DurableMemory(scale_down=ScaleDownState(asked, frozenset(asked)))
    choice = loop.run(observation, _limit(case), before).story.scale_down.choice
    empty, drain, kept = (choice.empty, choice.drain, choice.kept) if choice is not None else ((), (), ())
    expected = case["expect"].get("unremovable", {})
    told = {unremovable.node_name: str(unremovable.reason) for unremovable in kept if unremovable.node_name in expected}
    return {
        "drain": _as_recorded(drain, case["expect"]["drain"]),
        "empty": _as_recorded(empty, case["expect"]["empty"]),
    } | ({"unremovable": told} if expected else {})


def _limit(case: Json) -> Settings:
    """The cluster's minimum; no other limit but that, and no time to wait for."""
    minimum = case.get("min_limits", {})
    settings = loop.choose(
        LENIENT,
        "limits",
        cores_total=Bounds(minimum.get("cpu", 0), loop.ANY_SIZE),
        memory_total_bytes=Bounds(minimum.get("memory", 0), loop.ANY_SIZE),
    )
    return loop.choose(settings, "scale_down", max_scale_down_parallelism=loop.ANY_SIZE)


AMPLE = ((facts.CPU, 1_000_000), (facts.MEMORY, 1_000_000), (facts.PODS, 1_000))
ROOM = loop.complete(facts.Node("room", allocatable=AMPLE))
"""A node of no group that takes all pods. Limits count capacity, of which it shows none."""


class _Group:
    """A recorded group with its nodes and their pods."""

    def __init__(self, json: Json) -> None:
        self.nodes = [self._node(recorded) for recorded in json["nodes"]]
        self.nodes += [loop.disable_scale_down(self._node(recorded)) for recorded in self._others(json)]
        self.pods = [pod for recorded in json["nodes"] for pod in _pods(recorded)]
        options = node_groups.GroupOptions(zero_or_max=json["all_or_nothing"])
        self.group = loop.make_group(
            json["group"], self.nodes, json["target_size"], min_size=json["min"], options=options
        )

    @staticmethod
    def _node(recorded: Json) -> facts.Node:
        status = {"capacity": recorded["capacity"], "allocatable": recorded["capacity"]}
        return loop.complete(objects.node({"metadata": {"name": recorded["name"]}, "status": status}))

    @staticmethod
    def _others(json: Json) -> Iterable[Json]:
        """Nodes that are not recorded: the group has as many as it should unless its name says otherwise."""
        if "partially-registered" not in json["group"] and json["nodes"]:
            for number in range(json["target_size"] - len(json["nodes"])):
                yield json["nodes"][0] | {"name": f"{json['group']}-other-{number}"}


def _pods(recorded: Json) -> Iterator[facts.Pod]:
    assert not recorded["risky"], "no case was recorded with budgets"
    assert not recorded["daemonset_pods"], "no case was recorded with DaemonSets"
    for number in range(recorded["pods_to_move"]):
        yield _pod(recorded["name"], f"moves-{number}", {})
    for number in range(recorded["on_completion_pods"]):
        yield _pod(recorded["name"], f"completes-{number}", {well_known.SAFE_TO_EVICT_ANNOTATION: "on-completion"})


def _pod(node: str, name: str, annotations: dict[str, str], spec: facts.PodSpec = REQUESTS_NOTHING) -> facts.Pod:
    key, digest = f"{node}-{name}", str(hash(spec))
    pod = facts.Pod("default", key, key, annotations=annotations, owner=OWNER, spec=spec, digest=digest)
    return replace(pod, node_name=node, phase="Running")


def _as_recorded(removals: tuple[NodeRemoval, ...], expected: list[str]) -> list[str]:
    """Cluster Autoscaler goes through a map, so that the order of its answer says nothing."""
    names = [removal.node_name for removal in removals]
    return expected if sorted(names) == sorted(expected) else names


run = by_section({"categorize": _categorize, "unneeded_limit": _unneeded_limit, "nodes_to_delete": _nodes_to_delete})
