"""Each kind of event from a situation that brings it about."""

from dataclasses import replace

from tests.engine.loop import builders
from tests.observability.recorded_situations import NOW_S, Play, carried_out, find, flat, mark
from windlass.autoscaler import priority_expander_config
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import facts, node_groups, plan
from windlass.engine.model.durable_memory import DurableMemory, StartedDrain
from windlass.engine.model.settings import Settings
from windlass.observability import decision_events, object_events

MD_A = "MachineDeployment/default/md-a"
STATUS_OBJECT = ("ConfigMap", "kube-system", "cluster-autoscaler-status")


def test_pods_that_trigger_a_scale_up_are_told_the_sizes() -> None:
    members = builders.nodes("n", 1)
    full = [builders.running("work-0", "n-0", 3900)]
    waiting = [builders.pending(f"work-{number}", 3900) for number in range(1, 6)]
    play = Play()
    play.decide(builders.observe([builders.group(MD_A, members)], members, [*full, *waiting]))
    told = flat(find(play.said, "TriggeredScaleUp"))
    message = f"pod triggered scale-up: [{{{MD_A} 1->6 (max: 10)}}]"
    assert told == [
        ("Normal", "TriggeredScaleUp", "Pod", "default", f"work-{number}", message) for number in range(1, 6)
    ]


def test_several_groups_of_one_scale_up_stand_side_by_side() -> None:
    first, second = builders.nodes("a", 1), builders.nodes("b", 1)
    groups = [builders.group("a", first), builders.group("b", second)]
    waiting = [builders.pending(f"p{number}", 3900) for number in range(4)]
    busy = [builders.running("x", "a-0", 3900), builders.running("y", "b-0", 3900)]
    play = Play(builders.choose(builders.PEER, "scale_up", balance_similar_node_groups=True))
    play.decide(builders.observe(groups, [*first, *second], [*busy, *waiting]))
    messages = {event.message for event in find(play.said, "TriggeredScaleUp")}
    assert messages in (
        {"pod triggered scale-up: [{a 1->3 (max: 10)} {b 1->3 (max: 10)}]"},
        {"pod triggered scale-up: [{b 1->3 (max: 10)} {a 1->3 (max: 10)}]"},
    )


def test_a_raise_is_told_before_and_after_it() -> None:
    waiting = [builders.pending("p", 100)]
    play = Play()
    play.decide(builders.observe([builders.group("g", target=0)], [], waiting))
    told = [event.message for event in find(play.said, "ScaledUpGroup")]
    assert told == [
        "Scale-up: setting group g size to 1 instead of 0 (max: 10)",
        "Scale-up: group g size set to 1 instead of 0 (max: 10)",
    ]
    assert {occurrence.about.kind for occurrence in find(play.said, "ScaledUpGroup")} == {"ConfigMap"}


def test_a_raise_that_is_refused_is_told_and_nobody_triggered_it() -> None:
    observation = builders.observe([builders.group("g", target=0)], [], [builders.pending("p", 100)])
    play = Play()
    play.decide(observation, failed={plan.Resize("g", 0, 1, 10): "replicas are frozen"})
    assert flat(find(play.said, "FailedToScaleUpGroup")) == [
        ("Warning", "FailedToScaleUpGroup", *STATUS_OBJECT, "Scale-up failed for group g: replicas are frozen")
    ]
    assert find(play.said, "TriggeredScaleUp") == []
    again = Play()
    again.decide(replace(observation, refused={"g": node_groups.InstanceError("Other", "cloudProviderError", "no")}))
    assert find(again.said, "TriggeredScaleUp") == find(again.said, "NotTriggerScaleUp") == []


def test_reasons_are_counted_over_groups_and_the_most_common_comes_first() -> None:
    groups = [
        builders.group("a", target=0),
        builders.group("b", target=0),
        builders.group("full", builders.nodes("full", 1), max_size=1),
    ]
    members = builders.nodes("full", 1)
    play = Play()
    play.decide(builders.observe(groups, members, [builders.pending("big", 64_000)]))
    (event,) = find(play.said, "NotTriggerScaleUp")
    assert event.message == "pod didn't trigger scale-up: 2 Insufficient cpu, 1 max node group size reached"
    assert event.about.uid == "uid-big"


def test_a_full_cluster_is_told_to_all_and_to_pods() -> None:
    members = builders.nodes("g", 2)
    play = Play(builders.choose(builders.PEER, "limits", max_nodes_total=2))
    play.decide(builders.observe([builders.group("g", members)], members, [builders.pending("p", 5000)]))
    assert flat(find(play.said, "MaxNodesTotalReached")) == [
        ("Warning", "MaxNodesTotalReached", *STATUS_OBJECT, "Max total nodes in cluster reached: 2")
    ]
    (event,) = find(play.said, "NotTriggerScaleUp")
    assert event.message == "pod didn't trigger scale-up: max total nodes in cluster reached"


def test_a_scale_up_that_was_estimated_within_the_limit_tells_of_none() -> None:
    members = builders.nodes("g", 2)
    busy = [builders.running("x", "g-0", 4000), builders.running("y", "g-1", 4000)]
    waiting = [builders.pending(f"p{number}", 3900) for number in range(5)]
    observation = builders.observe([builders.group("g", members)], members, [*busy, *waiting])
    play = Play(builders.choose(builders.PEER, "limits", max_nodes_total=4))
    assert [
        instruction.to_size for instruction in play.decide(observation).plan if isinstance(instruction, plan.Resize)
    ] == [4]
    assert find(play.said, "MaxNodesTotalReached") == []


def test_an_unhealthy_cluster_is_told() -> None:
    members = builders.nodes("g", 8, conditions=builders.NOT_READY)
    play = Play()
    play.decide(builders.observe([builders.group("g", members)], members))
    assert flat(find(play.said, "ClusterUnhealthy")) == [
        ("Warning", "ClusterUnhealthy", *STATUS_OBJECT, "Cluster is unhealthy")
    ]


def test_instances_that_could_not_be_created_are_told_with_class_code_and_message() -> None:
    play = Play()
    play.decide(builders.observe([builders.group("g", target=0)], [], [builders.pending("p", 100)]))
    error = node_groups.InstanceError("OutOfResources", "QUOTA_EXCEEDED", "quota of cpus exceeded")
    broken = node_groups.Instance("id://broken", "Creating", error)
    play.decide(builders.observe([builders.group("g", target=1, instances=[broken])]), NOW_S + 10)
    (event,) = find(play.said, "ScaleUpFailed")
    assert event.message == (
        "Failed adding 1 nodes to group g due to OutOfResource.QUOTA_EXCEEDED; source errors: quota of cpus exceeded"
    )
    assert event.type == "Warning"


def test_groups_that_no_priority_matches_are_told_to_the_priorities() -> None:
    rules = priority_expander_config.parse_priorities("10: [spot.*]")
    groups = [builders.group("spot", target=0), builders.group("plain", target=0)]
    observation = builders.observe(groups, [], [builders.pending("p", 100)], priorities=rules)
    play = Play(builders.choose(builders.PEER, "scale_up", expander=("priority",)))
    play.decide(observation)
    (event,) = find(play.said, "PriorityConfigMapNotMatchedGroup")
    assert (event.about.kind, event.about.name) == ("ConfigMap", "cluster-autoscaler-priority-expander")
    assert "node group plain not found" in event.message
    assert find(play.said, "PriorityConfigMapNoGroupMatched") == []
    nobody = Play(play.settings)
    nobody.decide(replace(observation, priorities=priority_expander_config.parse_priorities("10: [other]")))
    assert len(find(nobody.said, "PriorityConfigMapNotMatchedGroup")) == 2
    assert len(find(nobody.said, "PriorityConfigMapNoGroupMatched")) == 1


# ── Drains ───────────────────────────────────────────────────────────────────────────────────────────────────────


def drain(node: facts.Node, group: str = "g", is_empty: bool = False) -> LoopMemory:
    begun = StartedDrain(group, NOW_S, is_empty, uid=node.uid)
    return LoopMemory(DurableMemory(loop=5, drains={node.name: begun}))


def test_a_drain_is_told_from_its_beginning_to_its_end() -> None:
    settings = builders.at_once(builders.PEER)
    members = builders.nodes("g", 2)
    pods = [builders.running("busy", "g-0", 2500), builders.running("lonely", "g-1", 1000)]
    group = builders.group("g", members, max_size=10)
    play = Play(settings, LoopMemory(DurableMemory(loop=5)))
    play.decide(builders.observe([group], members, pods))
    play.decide(builders.observe([group], members, pods), NOW_S + 1)
    begun = [event.message for event in find(play.said, "ScaleDown") if event.about.kind == "ConfigMap"]
    assert begun == ["Scale-down: removing node g-1, utilization: {0.25 0 0 0 cpu 0.25}, pods to reschedule: lonely"]
    play.said.clear()
    play.advance(builders.observe([group], members, pods), NOW_S + 1)
    marked = [members[0], mark(members[1], NOW_S + 1)]
    play.advance(builders.observe([group], marked, pods), NOW_S + 2)
    play.advance(builders.observe([group], marked, pods), NOW_S + 8)
    play.advance(builders.observe([group], marked, pods[:1]), NOW_S + 10)
    assert flat(play.said) == [
        ("Normal", "ScaleDown", "Node", "", "g-1", "marked the node as toBeDeleted/unschedulable"),
        ("Normal", "ScaleDown", "Pod", "default", "lonely", "deleting pod for node scale down"),
        ("Normal", "ScaleDown", "Node", "", "g-1", "nodes removed by cluster autoscaler"),
        ("Normal", "ScaleDown", *STATUS_OBJECT, "Scale-down: node g-1 removed with drain"),
    ]


def test_an_empty_node_has_events_of_its_own() -> None:
    settings = builders.at_once(builders.PEER)
    members = builders.nodes("g", 2)
    pods = [builders.running("busy", "g-0", 2500)]
    group = builders.group("g", members)
    play = Play(settings, LoopMemory(DurableMemory(loop=5)))
    play.decide(builders.observe([group], members, pods))
    play.decide(builders.observe([group], members, pods), NOW_S + 1)
    play.advance(builders.observe([group], members, pods), NOW_S + 1)
    marked = [members[0], mark(members[1], NOW_S + 1)]
    play.advance(builders.observe([group], marked, pods), NOW_S + 2)
    play.advance(builders.observe([group], marked, pods), NOW_S + 8)
    assert [event.message for event in find(play.said, "ScaleDownEmpty")] == [
        'Scale-down: removing empty node "g-1"',
        "Scale-down: empty node g-1 removed",
    ]


def test_a_mark_that_is_refused_is_told_once_and_not_as_a_failed_drain() -> None:
    (node,) = builders.nodes("g", 1)
    observation = builders.observe([builders.group("g", [node])], [node])
    play = Play(memory=drain(node))
    wanted = play.advance(observation, NOW_S).plan
    play.said.clear()
    play.memory = drain(node)
    play.drains = {}
    refused: dict[plan.Instruction, str] = {wanted[0]: "forbidden"}
    play.advance(observation, NOW_S, failed=refused)
    play.advance(replace(observation, failed=refused), NOW_S + 1)
    assert [told for told in flat(play.said) if told[1] == "ScaleDownFailed"] == [
        ("Warning", "ScaleDownFailed", "Node", "", "g-0",
         "failed to mark the node as toBeDeleted/unschedulable: forbidden"),
    ]  # fmt: skip


def test_a_deletion_that_is_refused_is_told_once_with_what_was_said() -> None:
    (node,) = builders.nodes("g", 1)
    play = Play(memory=drain(node, is_empty=True))
    observation = builders.observe([builders.group("g", [node])], [node])
    play.advance(observation, NOW_S)
    observation = builders.observe([builders.group("g", [node])], [mark(node, NOW_S)])
    play.advance(observation, NOW_S + 1)
    refused: dict[plan.Instruction, str] = {plan.DeleteNode("g-0", "g"): "replicas are frozen"}
    play.advance(observation, NOW_S + 7, failed=refused)
    for later_s in (8, 9, 30):
        play.advance(replace(observation, failed=refused if later_s == 8 else {}), NOW_S + later_s)
    (event,) = find(play.said, "ScaleDownFailed")
    assert event.message == "failed to delete empty node: failed to delete nodes from group g: replicas are frozen"
    assert find(play.said, "ScaleDownEmpty") == []


def test_pods_that_never_may_leave_are_told_and_so_is_their_node() -> None:
    (node,) = builders.nodes("g", 1)
    stays = builders.running("stays", "g-0")
    play = Play(memory=drain(node))
    observation = builders.observe([builders.group("g", [node])], [node], [stays])
    play.advance(observation, NOW_S)
    marked = builders.observe([builders.group("g", [node])], [mark(node, NOW_S)], [stays])
    play.advance(marked, NOW_S + 1)
    eviction = plan.Evict("default", "stays", "uid-stays", 30.0, "g-0")
    for after_s in range(7, 150, 10):
        play.advance(
            replace(marked, failed={eviction: "a budget forbids it"}), NOW_S + after_s, failed={eviction: "no"}
        )
    told = flat(find(play.said, "ScaleDownFailed"))
    assert told == [
        ("Warning", "ScaleDownFailed", "Pod", "default", "stays", "failed to delete pod for ScaleDown"),
        ("Warning", "ScaleDownFailed", "Node", "", "g-0",
         "failed to drain and delete node: Failed to drain node /g-0, due to following errors: [failed to evict pod "
         "default/stays within allowed timeout (last error: a budget forbids it)]"),
    ]  # fmt: skip


def test_marks_left_by_a_process_that_died_are_told_as_cleaned_up() -> None:
    members = [mark(node, NOW_S - 30) for node in builders.nodes("g", 1)]
    observation = builders.observe([builders.group("g", members)], members)
    play = Play()
    play.decide(observation)
    message = "removed ToBeDeletedByClusterAutoscaler taint from node g-0"
    assert flat(find(play.said, "ClusterAutoscalerCleanup")) == [
        ("Normal", "ClusterAutoscalerCleanup", "Node", "", "g-0", message)
    ]
    failing = Play()
    removal = plan.RemoveTaint("g-0", facts.TO_BE_DELETED)
    failing.decide(observation, failed={removal: "conflict"})
    assert flat(find(failing.said, "ClusterAutoscalerCleanup")) == [
        ("Warning", "ClusterAutoscalerCleanup", "Node", "", "g-0",
         "failed to clean ToBeDeletedByClusterAutoscaler on node g-0: conflict")
    ]  # fmt: skip


def test_marks_that_nobody_remembers_are_told_as_cleaned_up_by_windlass() -> None:
    members = [mark(node, NOW_S - 3600) for node in builders.nodes("g", 1)]
    observation = builders.observe([builders.group("g", members)], members)
    play = Play(Settings(), LoopMemory(DurableMemory(loop=5)))
    play.advance(observation)
    assert [event.about.name for event in find(play.said, "ClusterAutoscalerCleanup")] == ["g-0"]
    assert find(play.said, "ScaleDownFailed") == []


def test_taints_of_candidates_that_come_and_go_are_told_to_nobody() -> None:
    node = replace(builders.nodes("g", 1)[0])
    doing = decision_events.PlanContext({"g-0": object_events.node_reference(node)})
    soft = (
        plan.SetTaint("g-0", "DeletionCandidateOfClusterAutoscaler", "1", "PreferNoSchedule"),
        plan.RemoveTaint("g-0", "DeletionCandidateOfClusterAutoscaler"),
    )
    assert decision_events.plan_result_events(doing, carried_out(soft), object_events.node_reference(node)) == ()
