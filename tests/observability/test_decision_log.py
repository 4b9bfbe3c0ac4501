from tests.engine.loop import builders
from tests.engine.loop.builders import NOW_S, PEER, decide_once
from windlass.engine import drain_loop
from windlass.explain.decision_view import DecisionView
from windlass.observability import decision_log


def test_nothing_is_one_line_with_the_reason() -> None:
    members = builders.nodes("g", 1)
    busy = builders.running("busy", "g-0", 3000)
    decision = decide_once(builders.observe([builders.group("g", members)], members, [busy]), PEER)
    assert decision_log.summarize_decision(DecisionView(decision)) == [
        "nothing to do: scale_up=NotNeeded unschedulable_pods=0 scale_down=NoNodeDeleted unneeded_nodes=0"
        " unremovable_nodes=NotUnderutilized:1 draining_nodes=0"
    ]


def test_pods_that_no_group_helps_are_counted() -> None:
    observation = builders.observe([builders.group("g", target=0)], [], [builders.pending("p", 64_000)])
    (line,) = decision_log.summarize_decision(DecisionView(decide_once(observation, PEER)))
    assert line.startswith("nothing to do: scale_up=NoOptionsAvailable unschedulable_pods=1 ")


def test_a_scale_up_tells_sizes_pods_and_who_is_left() -> None:
    waiting = [builders.pending("a", 3000), builders.pending("b", 3000), builders.pending("big", 64_000)]
    observation = builders.observe([builders.group("g", target=0)], [], waiting)
    assert decision_log.summarize_decision(DecisionView(decide_once(observation, PEER))) == [
        'scaling up: groups="g 0→2" pods=2 unschedulable_pods=1'
    ]


def test_each_node_that_goes_has_a_line() -> None:
    members = builders.nodes("g", 3)
    pods = [builders.running("busy", "g-0", 2500), builders.running("light", "g-1", 500)]
    observation = builders.observe([builders.group("g", members)], members, pods)
    decision = decide_once(observation, builders.at_once(PEER))
    assert decision_log.summarize_decision(DecisionView(decision)) == [
        "scaling down: group=g node=g-2 evicted_pods=0",
        "scaling down: group=g node=g-1 evicted_pods=1",
    ]
    advanced = drain_loop.advance(observation, decision.memory, PEER, NOW_S)
    assert sorted(decision_log.summarize_drains(advanced)) == [
        "node drain: node=g-1 phase=marking",
        "node drain: node=g-2 phase=marking",
    ]


def test_an_unhealthy_cluster_has_its_numbers() -> None:
    members = builders.nodes("g", 8, conditions=builders.NOT_READY)
    (line,) = decision_log.summarize_decision(
        DecisionView(decide_once(builders.observe([builders.group("g", members)], members), PEER))
    )
    assert line == "cluster is unhealthy, scaling is stopped: unready_nodes=8 nodes=8"
