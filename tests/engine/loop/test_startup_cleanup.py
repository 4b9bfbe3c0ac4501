"""The first loop: marks that a process left behind are cleaned up, or tell what it knew."""

from dataclasses import replace

from tests.engine.loop import builders
from windlass.engine import loop_memory, taints
from windlass.engine.loop import Decision
from windlass.engine.model import durable_memory, facts, plan
from windlass.engine.model.settings import Settings


def marked(ago_s: float) -> facts.Node:
    return builders.node("a-0", taints=(taints.make_deletion_candidate(builders.NOW_S - ago_s),))


def begin(node: facts.Node, settings: Settings, loop: int = 0) -> Decision:
    observation = builders.observe([builders.group("a", [node])], [node])
    return builders.decide_once(observation, settings, loop_memory.LoopMemory(durable_memory.DurableMemory(loop=loop)))


def test_marks_of_candidates_tell_since_when_nodes_are_unneeded() -> None:
    settings = builders.choose(builders.WINDLASS, "scale_down", node_deletion_candidate_ttl_s=3600.0)
    assert builders.drained(begin(marked(700.0), settings)) == ["a-0"]
    assert builders.drained(begin(marked(500.0), settings)) == []


def test_marks_that_are_too_old_or_not_to_be_trusted_tell_nothing() -> None:
    settings = builders.choose(builders.WINDLASS, "scale_down", node_deletion_candidate_ttl_s=650.0)
    assert builders.drained(begin(marked(700.0), settings)) == []
    assert builders.drained(begin(marked(700.0), builders.WINDLASS)) == []


def test_a_memory_knows_better_than_marks() -> None:
    settings = builders.choose(builders.WINDLASS, "scale_down", node_deletion_candidate_ttl_s=3600.0)
    assert builders.drained(begin(marked(700.0), settings, loop=3)) == []


def test_marks_go_where_they_are_switched_off() -> None:
    settings = builders.choose(builders.WINDLASS, "scale_down", max_bulk_soft_taint_count=0)
    assert plan.RemoveTaint("a-0", taints.DELETION_CANDIDATE_KEY) in begin(marked(60.0), settings).plan
    kept = builders.choose(settings, "scale_down", node_deletion_candidate_ttl_s=3600.0)
    assert begin(marked(60.0), kept).plan == ()


def test_the_cheaper_group_wins_where_prices_are_asked() -> None:
    groups = [
        replace(builders.group(id, [], template=builders.node(f"{id}-t", provider_id="")), price_per_hour=price)
        for id, price in (("dear", 2.0), ("cheap", 1.0), ("unknown", None))
    ]
    settings = builders.choose(builders.WINDLASS, "scale_up", expander=("price",))
    observation = builders.observe(groups, [], [builders.pending("p", 3000)])
    assert builders.sizes(builders.decide_once(observation, settings)) == {"cheap": 1}
