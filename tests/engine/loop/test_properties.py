"""What holds for every decision, whatever the cluster looks like."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.engine.loop.builders import AGENT, NOW_S, WINDLASS, at_once, choose, decide_once, drained, node, running
from tests.engine.loop.strategies import World, draining_settings, idle_worlds, some_settings, worlds
from tests.engine.snapshot import column_values
from windlass.autoscaler import memory_store
from windlass.engine import loop, loop_memory
from windlass.engine.model import facts, node_groups, plan
from windlass.engine.model.settings import Settings
from windlass.selectors import NodeSelector, NodeSelectorTerm, Operator, Requirement

TIMES_S = (NOW_S, NOW_S + 10, NOW_S + 700, NOW_S + 1700, NOW_S + 2400)


def outcome(decision: loop.Decision) -> tuple[object, ...]:
    """What of a decision can be compared."""
    story = decision.story
    tried = tuple((proposal.result, proposal.helped, proposal.increases) for proposal in story.scale_ups)
    return decision.plan, decision.memory.durable, tried, story.scale_down.result, story.upcoming, story.unhealthy


# ── The same again ───────────────────────────────────────────────────────────────────────────────────────────────


@given(worlds(), some_settings())
@settings(max_examples=40, deadline=None)
def test_deciding_twice_on_the_same_gives_the_same_and_changes_nothing(world: World, chosen: Settings) -> None:
    observation = world.observe()
    before = loop_memory.LoopMemory()
    frozen = column_values.freeze(observation.snapshot)
    first = decide_once(observation, chosen, before)
    assert observation.snapshot.forks == 0
    assert column_values.freeze(observation.snapshot) == frozen
    assert before == loop_memory.LoopMemory()
    assert outcome(decide_once(observation, chosen, before)) == outcome(first)
    assert outcome(decide_once(world.observe(), chosen, before)) == outcome(first)


@given(worlds(), some_settings())
@settings(max_examples=40, deadline=None)
def test_a_memory_that_was_saved_and_loaded_leads_to_the_same_decisions(world: World, chosen: Settings) -> None:
    observation = world.observe()
    kept = saved = loop_memory.LoopMemory()
    for now_s in TIMES_S:
        decision, other = decide_once(observation, chosen, kept, now_s), decide_once(observation, chosen, saved, now_s)
        assert outcome(other) == outcome(decision)
        kept = decision.memory
        loaded = memory_store.decode_memory(memory_store.encode_memory(other.memory.durable))
        assert loaded == other.memory.durable
        saved = loop_memory.LoopMemory(loaded, other.memory.volatile)


@given(worlds(), some_settings())
@settings(max_examples=25, deadline=None)
def test_shapes_that_are_forgotten_between_decisions_change_none(world: World, chosen: Settings) -> None:
    faithful, forgetful = world.observe(), world.observe()
    kept = other = loop_memory.LoopMemory()
    for number, now_s in enumerate(TIMES_S):
        for observation in (faithful, forgetful):
            passing = running(f"passing-{number}", "a-0", labels={"app": f"passing-{number}"})
            observation.snapshot.add_pod(passing)
            observation.snapshot.remove_pod(passing.uid)
        forgetful.snapshot.forget_unused()
        decision, same = decide_once(faithful, chosen, kept, now_s), decide_once(forgetful, chosen, other, now_s)
        assert outcome(same) == outcome(decision)
        kept, other = decision.memory, same.memory


def with_daemons(world: World, *, pinned: bool) -> World:
    """A pod of a DaemonSet on every node: with the node affinity that its controller gives it, or without."""
    daemons = []
    for one in world.nodes:
        named = Requirement("metadata.name", Operator.IN, (one.name,))
        affinity = NodeSelector((NodeSelectorTerm((), (named,)),))
        spec = {"node_affinity": affinity} if pinned else {}
        daemons.append(running(f"agent-{one.name}", one.name, 50, owner=AGENT, digest="agent", spec=spec))
    return replace(world, pods=(*world.pods, *daemons))


@given(worlds() | idle_worlds(), draining_settings() | some_settings())
@settings(max_examples=40, deadline=None)
def test_the_node_affinity_of_bound_daemonset_pods_changes_no_decision(world: World, chosen: Settings) -> None:
    pinned, plain = with_daemons(world, pinned=True).observe(), with_daemons(world, pinned=False).observe()
    kept = other = loop_memory.LoopMemory()
    for now_s in TIMES_S:
        decision, same = decide_once(pinned, chosen, kept, now_s), decide_once(plain, chosen, other, now_s)
        assert outcome(same) == outcome(decision)
        kept, other = decision.memory, same.memory


@given(worlds(), some_settings())
@settings(max_examples=30, deadline=None)
def test_a_restart_forgets_no_request_backoff_or_time(world: World, chosen: Settings) -> None:
    observation, before = world.observe(), loop_memory.LoopMemory()
    for now_s in TIMES_S:
        restarted = decide_once(observation, chosen, loop_memory.LoopMemory(before.durable), now_s)
        decision = decide_once(observation, chosen, before, now_s)
        assert restarted.story.health == decision.story.health
        assert restarted.story.repairs == decision.story.repairs
        common = {*restarted.memory.durable.scale_down.since} & {*decision.memory.durable.scale_down.since}
        times = [one.memory.durable.scale_down.since for one in (restarted, decision)]
        assert all(times[0][name] == times[1][name] for name in common)
        before = decision.memory


# ── Bounds ───────────────────────────────────────────────────────────────────────────────────────────────────────


@given(worlds(), some_settings())
@settings(max_examples=50, deadline=None)
def test_no_plan_leaves_a_group_outside_its_bounds(world: World, chosen: Settings) -> None:
    observation, before = world.observe(), loop_memory.LoopMemory()
    for now_s in TIMES_S:
        decision = decide_once(observation, chosen, before, now_s)
        check_bounds(world, decision, chosen.scale_up.enforce_node_group_min_size)
        before = decision.memory


def check_bounds(world: World, decision: loop.Decision, enforces_min: bool) -> None:
    size = {group: group_size.target for group, group_size in decision.story.repairs.sizes.items()}
    groups = {group.id: group for group in world.groups}
    for instruction in decision.plan:
        if isinstance(instruction, plan.Resize):
            assert (
                size[instruction.group]
                == instruction.from_size
                < instruction.to_size
                <= groups[instruction.group].max_size
                == instruction.max_size
            )
            size[instruction.group] = instruction.to_size
            if groups[instruction.group].options.zero_or_max and not enforces_min:
                assert instruction.to_size == instruction.max_size
    going = Counter(one.group for one in decision.plan if isinstance(one, plan.Drain))
    for group, count in going.items():
        event("drains")
        assert size[group] - count >= groups[group].min_size


@given(worlds(), some_settings(), st.integers(1, 8))
@settings(max_examples=40, deadline=None)
def test_no_scale_up_exceeds_the_nodes_that_the_cluster_may_have(world: World, chosen: Settings, total: int) -> None:
    chosen = choose(chosen, "limits", max_nodes_total=total)
    chosen = choose(chosen, "scale_up", enforce_node_group_min_size=False)
    decision = decide_once(world.observe(), chosen)
    added = sum(
        instruction.to_size - instruction.from_size
        for instruction in decision.plan
        if isinstance(instruction, plan.Resize)
    )
    assert added == 0 or len(world.nodes) + added <= total


# ── Pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(worlds() | idle_worlds(), some_settings() | draining_settings())
@settings(max_examples=50, deadline=None)
def test_the_pods_of_all_nodes_that_go_have_a_place_together(world: World, chosen: Settings) -> None:
    decision = decide_once(world.observe(), at_once(chosen))
    going = set(drained(decision))
    evicted = {key for instruction in decision.plan if isinstance(instruction, plan.Drain) for key in instruction.evict}
    homeless = [pod for pod in world.pods if pod.node_name in going and pod.key in evicted]
    if homeless:
        event("pods are moved")
    staying = [one for one in world.nodes if one.name not in going and not one.taints]
    on = {one.name: [pod for pod in world.pods if pod.node_name == one.name] for one in world.nodes}
    marked = [one for one in world.nodes if one.name not in going and one.taints]
    assert has_places(homeless, [*staying, *marked], on)


def has_places(
    homeless: Sequence[facts.Pod], hosts: Sequence[facts.Node], on: Mapping[str, Sequence[facts.Pod]]
) -> bool:
    """Is there any way to put the pods on these nodes? Tried one after another, with what this file knows of pods."""
    if not homeless:
        return True
    first, *rest = homeless
    return any(
        has_places(rest, hosts, {**on, host.name: [*on[host.name], first]})
        for host in hosts
        if takes(host, on[host.name], first)
    )


def takes(host: facts.Node, others: Sequence[facts.Pod], pod: facts.Pod) -> bool:
    used = sum(dict(one.spec.requests).get(facts.CPU, 0) for one in (*others, pod))
    apart = pod.spec.anti_affinity and any(one.labels["app"] == pod.labels["app"] for one in others)
    kept_apart = any(one.spec.anti_affinity and one.labels["app"] == pod.labels["app"] for one in others)
    chosen = all(host.labels.get(key) == value for key, value in pod.spec.node_selector)
    return used <= dict(host.allocatable)[facts.CPU] and not apart and not kept_apart and chosen


@given(worlds() | idle_worlds(), some_settings() | draining_settings())
@settings(max_examples=50, deadline=None)
def test_nodes_that_go_together_overspend_a_budget_by_one_of_them_at_most(world: World, chosen: Settings) -> None:
    """As the peer has it: a node may go while each budget of its pods has something left, counting the ones before."""
    decision = decide_once(world.observe(), at_once(chosen))
    labels = {pod.key: pod.labels for pod in world.pods}
    drains = [instruction for instruction in decision.plan if isinstance(instruction, plan.Drain)]
    for budget in world.budgets:
        assert budget.selector is not None
        selects = budget.selector.matches
        claims = Counter(drain.node for drain in drains for key in drain.evict if selects(labels[key]))
        if claims:
            event("a budget is spent")
            assert claims.total() - max(claims.values()) < budget.disruptions_allowed


@given(worlds() | idle_worlds(), some_settings() | draining_settings())
@settings(max_examples=40, deadline=None)
def test_no_pod_of_another_node_is_evicted_from_a_node(world: World, chosen: Settings) -> None:
    host = {pod.key: pod.node_name for pod in world.pods}
    decision = decide_once(world.observe(), at_once(chosen))
    for instruction in decision.plan:
        if isinstance(instruction, plan.Drain):
            assert {host[key] for key in instruction.evict} <= {
                instruction.node,
                "",
            }  # one that waits may have been given room there


@given(worlds(least_pending=2), some_settings())
@settings(max_examples=40, deadline=None)
def test_new_nodes_have_room_for_all_pods_that_they_were_asked_for(world: World, chosen: Settings) -> None:
    chosen = choose(chosen, "limits", max_nodes_total=0)  # a limit cuts the nodes, not what is said of the pods
    world = replace(world, pods=tuple(pod for pod in world.pods if pod.owner != AGENT))  # they come with every node
    observation = world.observe()
    decision = decide_once(observation, chosen)
    helped = [observation.snapshot.pod(row) for proposal in decision.story.scale_ups for row in proposal.helped]
    hosts = [
        replace(example(world, instruction.group), name=f"{instruction.group}-new-{number}")
        for instruction in decision.plan
        if isinstance(instruction, plan.Resize)
        for number in range(instruction.from_size, instruction.to_size)
    ]
    if helped:
        event("pods are helped")
    largest_first = sorted(helped, key=lambda pod: -dict(pod.spec.requests)[facts.CPU])
    assert has_places(largest_first, hosts, {one.name: () for one in hosts})


def example(world: World, group: str) -> facts.Node:
    """A node like those of the group."""
    template = next(node_group.template for node_group in world.groups if node_group.id == group)
    return template or next(one for one in world.nodes if one.name.startswith(f"{group}-"))


# ── Groups do not disturb each other ─────────────────────────────────────────────────────────────────────────────

REPELLING = (facts.Taint("nobody", "tolerates", "NoSchedule"),)
BAD_GROUPS = {
    "nobody knows what its nodes would be like": node_groups.NodeGroup("bad", 0, 10, 0),
    "it has no template and awaits nodes": node_groups.NodeGroup("bad", 0, 10, 3),
    "it is larger than it may be": node_groups.NodeGroup("bad", 0, 2, 5, template=node("bad", taints=REPELLING)),
    "its minimum is above its maximum": node_groups.NodeGroup("bad", 5, 2, 0, template=node("bad", taints=REPELLING)),
    "its instances are no nodes": node_groups.NodeGroup(
        "bad", 0, 9, 2, tuple(node_groups.Instance(f"id://bad-{n}") for n in range(2)), node("bad", taints=REPELLING)
    ),
    "its instances fail": node_groups.NodeGroup(
        "bad",
        0,
        9,
        2,
        tuple(
            node_groups.Instance(f"id://bad-{n}", "Creating", node_groups.InstanceError("Other", "x")) for n in range(2)
        ),
        node("bad", taints=REPELLING),
    ),
}


def about_others(decision: loop.Decision) -> Iterator[plan.Instruction]:
    return (instruction for instruction in decision.plan if getattr(instruction, "group", "") != "bad")


@given(worlds(), some_settings(), st.sampled_from(list(BAD_GROUPS)), st.booleans())
@settings(max_examples=50, deadline=None)
def test_a_bad_group_changes_no_decision_about_others(
    world: World, chosen: Settings, kind: str, at_front: bool
) -> None:
    chosen = choose(chosen, "limits", max_nodes_total=0)
    disturbed = world.and_group(BAD_GROUPS[kind], at_front)
    times_s = TIMES_S if chosen.deviations == WINDLASS.deviations else TIMES_S[:1]  # the peer stops all for one
    without = with_it = loop_memory.LoopMemory()
    for now_s in times_s:
        alone = decide_once(world.observe(), chosen, without, now_s)
        beside = decide_once(disturbed.observe(), chosen, with_it, now_s)
        assert list(about_others(beside)) == list(about_others(alone)), kind
        without, with_it = alone.memory, beside.memory


@given(worlds(least_pending=2), some_settings())
@settings(max_examples=30, deadline=None)
def test_a_refusal_concerns_the_group_that_refused(world: World, chosen: Settings) -> None:
    observation = world.observe()
    first = decide_once(observation, chosen)
    raised = [instruction.group for instruction in first.plan if isinstance(instruction, plan.Resize)]
    if not raised:
        return
    event("refused")
    error = node_groups.InstanceError("OutOfResources", "STOCKOUT")
    again = decide_once(replace(observation, refused={raised[0]: error}), chosen)
    assert raised[0] not in [one.group for one in again.plan if isinstance(one, plan.Resize)]
    backoffs = again.memory.durable.health.backoffs
    assert backoffs[raised[0]].error == error
    assert set(backoffs) - set(first.memory.durable.health.backoffs) == {raised[0]}
    asked, known = again.memory.durable.health.requests, again.story.health.memory.requests
    assert asked.scale_ups.get(raised[0]) == known.scale_ups.get(raised[0])
    if chosen.deviations.joint_scale_up:
        others = [one for one in first.plan if isinstance(one, plan.Resize) and one.group != raised[0]]
        assert [one for one in again.plan if isinstance(one, plan.Resize)] == others
