"""The view of a decision: each node, group and pending pod once, and all surfaces agree with it."""

from collections import Counter

from hypothesis import given

from tests.engine.loop import builders
from tests.engine.loop.builders import NOW_S
from tests.engine.loop.strategies import World, worlds
from windlass.engine.loop import decide
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model.plan import PlanResult
from windlass.engine.model.settings import Settings
from windlass.explain import cluster, explain_context, nodes
from windlass.explain.decision_view import DecisionView
from windlass.observability import status_builder, status_configmap


@given(worlds())
def test_both_statuses_and_explain_show_the_same_groups_and_pods(world: World) -> None:
    observation = world.observe()
    decision = decide(observation, LoopMemory(), Settings(), NOW_S)
    at = explain_context.ExplainContext(decision.evaluated, LoopMemory(), Settings(), NOW_S, decision)
    view, explained = at.view, cluster.explain_cluster(at)
    published = status_builder.build_status(view, status_builder.measure_cluster(observation, NOW_S))
    status = status_configmap.build_cluster_status(view, PlanResult(), status_configmap.initial_status(NOW_S), NOW_S)
    published_groups = {group.id: group for group in published.groups}
    for group in explained.groups:
        grown = group.target_size if group.grows_to is None else group.grows_to
        fixed = view.groups[group.id].target_size - group.target_size
        assert published_groups[group.id].target_size == grown + (fixed if group.grows_to is None else 0)
    if status.cluster is not None:
        assert {group.name: group.candidates for group in status.groups} == {
            group.id: len(group.unneeded) for group in explained.groups
        }
    helped = {row for row, verdict in view.pods.items() if verdict.is_helped}
    assert helped == {row for proposal in decision.story.scale_ups for row in proposal.helped}
    assert view.count_unremovable() == Counter(view.unremovable_reasons.values())


@given(worlds())
def test_a_node_is_counted_in_the_state_in_which_it_is_explained(world: World) -> None:
    decision = decide(world.observe(), LoopMemory(), Settings(), NOW_S)
    at = explain_context.ExplainContext(decision.evaluated, LoopMemory(), Settings(), NOW_S, decision)
    states = Counter(str(nodes.explain_node(at, node.name).state) for node in decision.evaluated.nodes)
    assert cluster.explain_cluster(at).node_states == states


def test_a_frozen_view_keeps_its_groups_when_the_snapshot_changes() -> None:
    members = builders.nodes("g", 3)
    observation = builders.observe([builders.group("g", members, min_size=0)], members)
    decision = decide(observation, LoopMemory(), Settings(), NOW_S)
    frozen, late = DecisionView(decision).freeze(), DecisionView(decision)
    assert len(frozen.groups["g"].unneeded) > 0
    for node in members:
        observation.snapshot.remove_node(node.name)
    assert len(frozen.groups["g"].unneeded) > len(late.groups["g"].unneeded)
