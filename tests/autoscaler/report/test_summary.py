from tests.engine.decide import builders
from tests.engine.decide.builders import NOW_S, PEER, decide_once
from windlass.engine import drain_loop
from windlass.observability import decision_log


def test_nothing_is_one_line_with_the_reason() -> None:
    members = builders.nodes("g", 1)
    busy = builders.running("busy", "g-0", 3000)
    decision = decide_once(builders.observe([builders.group("g", members)], members, [busy]), PEER)
    assert decision_log.summarize_decision(decision) == [
        "nothing to do: no pod needs a node, nodes stay: 1 NotUnderutilized"
    ]


def test_pods_that_no_group_helps_are_counted() -> None:
    seen = builders.observe([builders.group("g", target=0)], [], [builders.pending("p", 64_000)])
    (line,) = decision_log.summarize_decision(decide_once(seen, PEER))
    assert line.startswith("nothing to do: 1 pod left, which no group helps")


def test_a_scale_up_tells_sizes_pods_and_who_is_left() -> None:
    waiting = [builders.pending("a", 3000), builders.pending("b", 3000), builders.pending("big", 64_000)]
    seen = builders.observe([builders.group("g", target=0)], [], waiting)
    assert decision_log.summarize_decision(decide_once(seen, PEER)) == [
        "scale up g 0→2 for 2 pods; 1 pod left, which no group helps"
    ]


def test_each_node_that_goes_has_a_line() -> None:
    members = builders.nodes("g", 3)
    pods = [builders.running("busy", "g-0", 2500), builders.running("light", "g-1", 500)]
    seen = builders.observe([builders.group("g", members)], members, pods)
    decision = decide_once(seen, builders.at_once(PEER))
    assert decision_log.summarize_decision(decision) == [
        "scale down g: g-2 goes, is empty",
        "scale down g: g-1 goes, 1 pod to be moved",
    ]
    advanced = drain_loop.advance(seen, decision.memory, PEER, NOW_S)
    assert sorted(decision_log.summarize_drains(advanced)) == ["drain of g-1: marking", "drain of g-2: marking"]


def test_an_unhealthy_cluster_has_its_numbers() -> None:
    members = builders.nodes("g", 8, conditions=builders.NOT_READY)
    (line,) = decision_log.summarize_decision(
        decide_once(builders.observe([builders.group("g", members)], members), PEER)
    )
    assert line == "cluster is unhealthy: 8 of 8 nodes are unready; nothing else is done"
