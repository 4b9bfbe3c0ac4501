"""What is explained is true: it is what the engine says, and what would make a pod fit makes it fit."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import event, given, settings

from tests.engine.loop import builders
from tests.engine.loop.builders import NOW_S
from tests.engine.loop.strategies import World, idle_worlds, some_settings, worlds
from tests.engine.scale_down import utilization_oracle
from tests.engine.snapshot import column_values
from tests.explain.constrained_clusters import APP, fussy_worlds
from windlass import formatting
from windlass.engine import loop, loop_memory
from windlass.engine.loop_state import ScaleUpContext
from windlass.engine.model import facts, node_groups, plan, scale_down_state
from windlass.engine.model.settings import Settings
from windlass.engine.predicates import registry
from windlass.engine.scale_up import options
from windlass.explain import cluster, explain_context, groups, nodes, obstacles, pods, queries, render_pods, verdicts
from windlass.explain.decision_view import PodState, RemovalState
from windlass.explain.nodes import NodeExplanation, PodDisposition
from windlass.explain.obstacles import RemedyKind
from windlass.explain.pods import PodExplanation
from windlass.explain.verdicts import GroupVerdict


def take(world: World, chosen: Settings) -> explain_context.ExplainContext:
    return explain_context.evaluate(world.observe(), loop_memory.LoopMemory(), chosen, NOW_S)


def accounts(at: explain_context.ExplainContext) -> Iterator[PodExplanation]:
    yield from (pods.explain_pod(at, row) for row in sorted(at.snapshot.pods.rows.values()))


# ── As the engine says ───────────────────────────────────────────────────────────────────────────────────────────

AFTERWARDS = (options.FILTERED_OUT, options.EXECUTION_FAILED)
"""What is said of groups that had accepted the pod."""


@given(worlds(least_pending=1) | fussy_worlds(), some_settings())
@settings(max_examples=80, deadline=None)
def test_groups_say_what_they_said_to_the_loop(world: World, chosen: Settings) -> None:
    at = take(world, chosen)
    first = at.decision.story.scale_ups[0]
    for alike in (*first.considered, *first.remaining):
        group_verdicts = {
            group_verdict.group: group_verdict for group_verdict in pods.explain_pod(at, alike.rows[0]).groups
        }
        for group, said in alike.rejected.items():
            if said[0] in AFTERWARDS:
                assert group_verdicts[group].fits
            else:
                assert sorted(group_verdicts[group].obstacles[0].reasons) == sorted(said)
                assert not group_verdicts[group].fits
        assert all(group_verdicts[group].fits for group in alike.accepted)
        for group, reasons in first.skipped.items():
            assert {*reasons} & {hold.reason for hold in group_verdicts[group].holds} or group_verdicts[group].holds
        event(f"{len(alike.rejected)} refuse, {len(alike.accepted)} accept")


@given(worlds(least_pending=1), some_settings())
@settings(max_examples=60, deadline=None)
def test_a_pod_is_helped_if_and_only_if_the_plan_grows_a_group_for_it(world: World, chosen: Settings) -> None:
    at = take(world, chosen)
    helped = {row for proposal in at.decision.story.scale_ups if proposal.increases for row in proposal.helped}
    for row in at.snapshot.pods.rows.values():
        account = pods.explain_pod(at, row)
        assert (account.state is PodState.HELPED) == (row in helped)
        if account.choice is not None and account.choice.sizes:
            ordered = {
                instruction.group: instruction.to_size
                for instruction in at.decision.plan
                if isinstance(instruction, plan.Resize)
            }
            assert all(ordered[group] >= size for group, (_, size) in account.choice.sizes.items())


# ── What would make a pod fit ────────────────────────────────────────────────────────────────────────────────────


@given(worlds(least_pending=1) | fussy_worlds(), some_settings())
@settings(max_examples=60, deadline=None)
def test_what_is_said_to_make_a_pod_fit_makes_it_fit(world: World, chosen: Settings) -> None:
    at = take(world, chosen)
    if at.decision.story.repairs.stop is not None:
        return
    for account in accounts(at):
        settled, emptied = settle(world, at, account.key), empty(world, account.key)
        for verdict in account.groups:
            if verdict.is_curable and not verdict.helps:
                event(" and ".join(sorted({remedy.change.value for remedy in verdict.remedies})))
                event(f"it counts on {'others' if verdict.counts_on else 'nobody'}")
                check_cure(settled, chosen, account, verdict)
                if not verdict.counts_on:
                    check_cure(emptied, chosen, account, verdict)


def empty(world: World, key: str) -> World:
    """Nobody else waits."""
    return replace(world, pods=tuple(pod for pod in world.pods if pod.key == key or pod.node_name))


def settle(world: World, at: explain_context.ExplainContext, key: str) -> World:
    """All others that wait and are expected somewhere have come there; the rest would only be in the way."""
    homes: dict[str, facts.Node] = {}
    groups: dict[str, str] = {}
    with at.scale_up() as context:
        table = context.snapshot.pods
        for row in verdicts.find_expected_pods(context):
            homes[table.key(row)] = find_node(context, int(table.node_rows[row]))
        groups |= {f"here-{name}": group for name, group in context.groups.upcoming.items()}
    homes.pop(key, None)
    pods = tuple(
        replace(pod, node_name=homes[pod.key].name, phase="Running", unschedulable_since_s=None)
        if pod.key in homes
        else pod
        for pod in world.pods
        if pod.key == key or pod.node_name or pod.key in homes
    )
    settled = replace(world, pods=pods)
    for node in {node.name: node for node in homes.values() if node.name in groups}.values():
        settled = arrive(settled, node, groups[node.name])
    return settled


def find_node(context: ScaleUpContext, row: int) -> facts.Node:
    """A node that exists or is on its way; of the latter, as it will be."""
    name, node = context.snapshot.nodes.names[row], context.snapshot.nodes.facts[row]
    if name not in context.groups.upcoming:
        return node
    return replace(node, name=f"here-{name}", labels={**node.labels, facts.HOSTNAME: f"here-{name}"})


def arrive(world: World, node: facts.Node, group_id: str) -> World:
    """A node that was on its way is there: as one of the group's instances that have none yet, if there are such."""
    taken = {one.provider_id for one in world.nodes}
    group = next(node_group for node_group in world.groups if node_group.id == group_id)
    started = [one for one in group.instances if one.provider_id not in taken]
    instance = started[0] if started else node_groups.Instance(f"id://{node.name}")
    there = replace(node, provider_id=instance.provider_id, conditions=builders.READY, created_s=builders.LONG_AGO_S)
    instances = (*(one for one in group.instances if one is not instance), node_groups.Instance(instance.provider_id))
    groups = tuple(replace(one, instances=instances) if one is group else one for one in world.groups)
    return replace(world, groups=groups, nodes=(*world.nodes, there))


def check_cure(world: World, chosen: Settings, account: PodExplanation, verdict: GroupVerdict) -> None:
    """Everything else as it is, but that no other pod waits and no other group grows: the group is raised for it."""
    pod = next(one for one in world.pods if one.key == account.key)
    longer = NOW_S - 100.0
    cured = replace(obstacles.apply_remedies(pod, verdict.remedies), created_s=longer, unschedulable_since_s=longer)
    sizes = {remedy.key: remedy.amount for remedy in verdict.remedies if remedy.change is RemedyKind.MAX_SIZE}
    found = tuple(
        replace(group, max_size=sizes.get(group.id, group.max_size) if group.id == verdict.group else group.target_size)
        for group in world.groups
    )
    for one in verdict.remedies:
        if one.change is RemedyKind.MAX_NODES_TOTAL:
            chosen = builders.choose(chosen, "limits", max_nodes_total=one.amount)
    others = tuple(one for one in world.pods if one is not pod)
    observation = replace(world, groups=found, pods=(*others, cured)).observe()
    after = explain_context.evaluate(observation, loop_memory.LoopMemory(), chosen, NOW_S)
    row = after.find_pod(pod.namespace, pod.name)
    assert row is not None
    pod_explanation = pods.explain_pod(after, row)
    assert next(group_verdict for group_verdict in pod_explanation.groups if group_verdict.group == verdict.group).fits
    has_place = pod_explanation.state in (PodState.HAS_ROOM, PodState.UPCOMING)
    assert has_place or verdict.group in builders.sizes(after.decision)


def test_what_hangs_on_where_another_pod_comes_to_says_so() -> None:
    """Zone a has room for a pod that must be near others only once the one that waits for a node there has come."""
    near = {"affinity": (facts.PodAffinityTerm(facts.ZONE, APP, ("default",)),)}
    there = builders.nodes("b", 1, cpu=1000, labels={facts.ZONE: "b"})
    template = builders.node("template", 1000, labels={facts.ZONE: "a"}, provider_id="")
    coming = builders.group("a", max_size=1, target=1, template=template)
    mates: dict[str, Any] = {"labels": {"app": "a"}}
    waiting = builders.pending("anywhere", 700, spec={"node_selector": ((facts.ZONE, "a"),)}, **mates)
    sociable = builders.pending("sociable", 900, spec=near, **mates)
    observation = builders.observe(
        [coming, builders.group("b", there, max_size=1)],
        there,
        [builders.running("mate", "b-0", 300, **mates), waiting, sociable],
    )
    at = explain_context.evaluate(observation, loop_memory.LoopMemory(), Settings(), NOW_S)
    account = pods.explain_pod(at, at.snapshot.pods.rows["uid-sociable"])
    assert [(group_verdict.group, group_verdict.fits, group_verdict.counts_on) for group_verdict in account.groups] == [
        ("a", True, ("default/anywhere",)),
        ("b", True, ("default/anywhere",)),
    ]
    told = "\n".join(render_pods.render_pod(account))
    assert "let the group have 2 nodes, provided that default/anywhere gets the place expected for it" in told


def test_a_pod_that_nothing_is_known_to_help_is_told_no_remedy() -> None:
    members = builders.nodes("a", 1, cpu=1000)
    pending = builders.pending("p", 100, spec={"volumes": (facts.Volume("v", "persistentVolumeClaim", "missing"),)})
    at = explain_context.evaluate(
        builders.observe([builders.group("a", members)], members, [pending]),
        loop_memory.LoopMemory(),
        Settings(),
        NOW_S,
    )
    account = pods.explain_pod(at, at.snapshot.pods.rows["uid-p"])
    assert account.state is PodState.NOWHERE
    assert not account.groups[0].is_curable
    assert not account.groups[0].remedies
    assert "no" in " ".join(render_pods.render_pod(account)).lower()


# ── Numbers ──────────────────────────────────────────────────────────────────────────────────────────────────────


@given(worlds(least_pending=1) | fussy_worlds(), some_settings())
@settings(max_examples=60, deadline=None)
def test_each_number_of_a_shortage_is_the_engines_and_stands_in_the_text(world: World, chosen: Settings) -> None:
    at = take(world, chosen)
    made = at.decision.story.templates
    for account in accounts(at):
        text = "\n".join(render_pods.render_pod(account))
        pod = next(one for one in world.pods if one.key == account.key)
        for verdict in account.groups:
            for short in (short for obstacle in verdict.obstacles for short in obstacle.shortages):
                template = made[verdict.group]
                taken = sum(dict(one.spec.requests).get(short.resource, 0) for one in template.pods)
                assert short.requested == dict(pod.spec.requests)[short.resource]
                assert short.allocatable == dict(template.node.allocatable).get(short.resource, 0)
                assert short.free == short.allocatable - taken == verdict.free[short.resource]
                assert short.taken == taken
                assert f"{formatting.format_short_quantity(short.resource, short.requested, up=True)} asked" in text
                free = f"{formatting.format_short_quantity(short.resource, short.free)} free on an empty node"
                assert (free if short.allocatable else "its nodes have none") in text
                event("a shortage")


@given(idle_worlds() | worlds(), some_settings())
@settings(max_examples=60, deadline=None)
def test_the_usage_of_a_node_is_that_of_its_pods_and_of_those_that_it_has_room_for(
    world: World, chosen: Settings
) -> None:
    at = take(world, chosen)
    options = utilization_oracle.Options(skip_mirror_pods=chosen.scale_down.ignore_mirror_pods_utilization)
    for account in node_accounts(at):
        if account.usage is None:
            continue
        counted = [pod for pod in world.pods if pod.node_name == account.name or pod.key in account.awaited]
        node = next(one for one in world.nodes if one.name == account.name)
        found = utilization_oracle.calculate(node, counted, options, None, NOW_S)
        assert isinstance(found, scale_down_state.NodeUtilization)
        assert (account.usage.cpu, account.usage.memory, account.usage.share) == (
            found.cpu,
            found.memory,
            found.utilization,
        )


# ── Nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def node_accounts(at: explain_context.ExplainContext) -> Iterator[NodeExplanation]:
    yield from (nodes.explain_node(at, node.name) for node in at.observation.nodes)


@given(idle_worlds() | worlds(), some_settings())
@settings(max_examples=60, deadline=None)
def test_nodes_are_said_to_stand_where_the_decision_leaves_them(world: World, chosen: Settings) -> None:
    at = take(world, chosen)
    since = at.decision.memory.durable.scale_down.since
    going = builders.drained(at.decision)
    kept = builders.reasons(at.decision)
    for account in node_accounts(at):
        assert (account.state is RemovalState.GOING) == (account.name in going)
        if account.state is RemovalState.UNNEEDED:
            assert account.since_s == since[account.name]
        if account.state is RemovalState.NEEDED:
            assert account.reason == kept[account.name]
        if account.name in since and at.decision.story.repairs.stop is None:
            assert account.state in (RemovalState.UNNEEDED, RemovalState.GOING)
        event(account.state.value)


@given(idle_worlds(), some_settings())
@settings(max_examples=60, deadline=None)
def test_each_pod_of_a_node_that_can_go_has_a_destination_that_takes_it(world: World, chosen: Settings) -> None:
    at = take(world, chosen)
    for account in node_accounts(at):
        if account.state not in (RemovalState.UNNEEDED, RemovalState.GOING):
            continue
        for pod_on_removal in account.pods:
            if pod_on_removal.fate is PodDisposition.MOVES:
                row = next(
                    row for row in at.snapshot.pods.rows.values() if at.snapshot.pods.key(row) == pod_on_removal.pod
                )
                there = at.snapshot.nodes.rows[pod_on_removal.destination]
                assert pod_on_removal.destination != account.name
                assert registry.static_mask(at.snapshot, at.snapshot.shape_of_row(row), chosen.filters)[there]
                event("a destination")


# ── Asking ───────────────────────────────────────────────────────────────────────────────────────────────────────


@given(worlds(), some_settings())
@settings(max_examples=40, deadline=None)
def test_asking_changes_nothing(world: World, chosen: Settings) -> None:
    observation = world.observe()
    frozen = column_values.freeze(observation.snapshot)
    at = explain_context.evaluate(observation, loop_memory.LoopMemory(), chosen, NOW_S)
    cluster_explanation = cluster.explain_cluster(at)
    list(accounts(at))
    list(node_accounts(at))
    assert observation.snapshot.forks == 0
    assert column_values.freeze(observation.snapshot) == frozen
    assert loop.decide(observation, loop_memory.LoopMemory(), chosen, NOW_S).plan == at.decision.plan
    assert (
        cluster.explain_cluster(explain_context.evaluate(observation, loop_memory.LoopMemory(), chosen, NOW_S))
        == cluster_explanation
    )


@given(worlds(), some_settings())
@settings(max_examples=40, deadline=None)
def test_an_account_written_as_json_reads_back_as_it_was(world: World, chosen: Settings) -> None:
    at = take(world, chosen)
    for pod in accounts(at):
        assert queries.decode_explanation(PodExplanation, queries.encode_explanation(pod)) == pod
    for node in node_accounts(at):
        assert queries.decode_explanation(NodeExplanation, queries.encode_explanation(node)) == node
    for group in at.observation.groups:
        group_explanation = groups.explain_group(at, group.id)
        assert (
            queries.decode_explanation(groups.GroupExplanation, queries.encode_explanation(group_explanation))
            == group_explanation
        )
    whole = cluster.explain_cluster(at)
    assert queries.decode_explanation(cluster.ClusterExplanation, queries.encode_explanation(whole)) == whole


@given(worlds(), some_settings())
@settings(max_examples=40, deadline=None)
def test_the_cluster_counts_every_node_and_every_pod_once(world: World, chosen: Settings) -> None:
    at = take(world, chosen)
    cluster_explanation = cluster.explain_cluster(at)
    assert sum(cluster_explanation.node_states.values()) == cluster_explanation.nodes == len(world.nodes)
    assert sum(pending_pods.count for pending_pods in cluster_explanation.waiting) == cluster_explanation.pending
    assert cluster_explanation.running + cluster_explanation.pending == len(world.pods)
    states = [nodes.explain_node(at, node.name).state for node in world.nodes]
    for state in (RemovalState.UNNEEDED, RemovalState.GOING, RemovalState.NEEDED, RemovalState.NOT_AUTOSCALED):
        assert cluster_explanation.node_states.get(state, 0) == states.count(state)
    assert len(cluster_explanation.steps) == len(at.decision.plan)
