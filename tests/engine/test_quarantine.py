"""An object that raises what nothing foresees costs itself: everything else is decided as without it."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.loop.builders import (
    AGENT,
    NOW_S,
    WINDLASS,
    at_once,
    budget,
    choose,
    decide_once,
    drained,
    group,
    node,
    observe,
    pending,
    running,
    sizes,
)
from tests.engine.snapshot import column_values
from windlass.engine import loop, quarantine, taints
from windlass.engine.actuation import soft_taints
from windlass.engine.capacity_apis import provisioning_request_queue
from windlass.engine.cluster_state import readiness, upcoming_nodes
from windlass.engine.drainability import pdb, rules
from windlass.engine.expanders import priority
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import facts, node_groups, plan, scale_up_status
from windlass.engine.model import settings as engine_settings
from windlass.engine.model.provisioning import BufferPods, PodSet, ProvisioningRequest
from windlass.engine.observation import Observation
from windlass.engine.predicates import registry
from windlass.engine.quarantine import RETRY_S, FaultSubject, SubsetSearch, Suspect
from windlass.engine.scale_down import eligibility, removal_simulator
from windlass.engine.scale_up import node_templates, pending_pods, pod_list, template_fit
from windlass.engine.snapshot import cluster_snapshot, node_table
from windlass.engine.snapshot import columns as snapshot_columns

ERRORS = (ValueError, RecursionError, OverflowError, ZeroDivisionError, KeyError, MemoryError, AssertionError)
SETTINGS = choose(
    choose(at_once(WINDLASS), "provisioning_requests", enable_provisioning_requests=True),
    "injection",
    capacity_buffer_pod_injection_enabled=True,
)
SETTINGS = choose(SETTINGS, "scale_up", expander=("priority", "least-waste"))
ODD = "odd"


def pool(name: str) -> dict[str, Any]:
    """A pod that only nodes of this pool take."""
    return {"spec": {"node_selector": (("pool", name),)}}


def make_group(name: str, size: int = 0) -> tuple[node_groups.NodeGroup, list[facts.Node]]:
    members = [node(f"{name}-{number}", labels={"pool": name}) for number in range(size)]
    return group(name, members, template=node(f"{name}-template", labels={"pool": name}, provider_id="")), members


def make_world() -> Observation:
    """Two pods that want a node each, two nodes that nobody needs, and one of every kind of object that is odd."""
    odd_group, odd_nodes = make_group(ODD, 2)
    odd_nodes[0] = replace(odd_nodes[0], annotations={ODD: ODD})
    made = [
        make_group("plain"),
        make_group("idle", 3),
        make_group("busy", 3),
        (odd_group, odd_nodes),
        make_group("tenant"),
    ]
    groups, members = [node_group for node_group, _ in made], [one for _, nodes in made for one in nodes]
    agent = pending("agent", owner=AGENT, namespace="kube-system").spec
    spare = pending(ODD, cpu=10, namespace=ODD, owner=None)
    return observe(
        groups,
        members,
        [
            pending("web-1", 3800, **pool("plain")),
            pending("web-2", 3000, **pool("plain")),
            pending("odd-1", 3800, namespace=ODD, **pool("tenant")),
            pending("tenant-1", 3700, namespace="tenant", **pool("tenant")),
            running("busy-0", "busy-0", 3900),
            running("busy-1", "busy-1", 3900),
            running("odd-2", "busy-2", 50, namespace=ODD),
            running("odd-node", "odd-0", 3900),
        ],
        daemon_sets=(
            node_groups.DaemonSet("kube-system", ODD, "uid-ds", facts.Pod("kube-system", ODD, spec=agent, owner=AGENT)),
        ),
        budgets=(budget(5), facts.PodDisruptionBudget(ODD, ODD, budget(1).selector, 1)),
        priorities=priority.compile_rules({10: [".*"]}),
        requests=(
            ProvisioningRequest(
                ODD,
                ODD,
                "uid-r",
                provisioning_request_queue.CHECK_CAPACITY_CLASS,
                (PodSet("t", 1, spare),),
                created_s=NOW_S - 60,
            ),
        ),
        spares=(BufferPods(spare, ("odd-buffer-0",)),),
        quotas=(scale_up_status.Quota(ODD, {"nodes": 100}),),
    )


@dataclass(frozen=True)
class Place:
    """A function that is given one object, and when that is the odd one."""

    owner: Any
    name: str
    is_odd: Callable[..., bool]
    subject: FaultSubject
    objects: tuple[str, ...]
    """What may be blamed."""

    def __str__(self) -> str:
        return f"{getattr(self.owner, '__name__', self.owner)}.{self.name}"


def about_odd_pod(*given: Any) -> bool:
    return any(isinstance(item, facts.Pod) and item.namespace == ODD and item.phase == "Running" for item in given)


def about_odd_shape(*given: Any) -> bool:
    return any(isinstance(item, facts.PodShape) and item.namespace == ODD and item.spec.node_selector for item in given)


def about_odd_node(*given: Any) -> bool:
    return any(isinstance(item, facts.Node) and ODD in item.annotations for item in given)


def about_odd_template(*given: Any) -> bool:
    return any(isinstance(item, facts.Node) and item.labels.get("pool") == ODD for item in given)


PENDING = (FaultSubject.POD, ("odd/odd-1",))
RUNNING = (FaultSubject.POD, ("odd/odd-2",))
NODE = (FaultSubject.NODE, ("odd-0",))
GROUP = (FaultSubject.GROUP, (ODD,))
PLACES = [
    Place(snapshot_columns.RequestColumns, "of", about_odd_shape, *PENDING),
    Place(registry, "static_mask", about_odd_shape, *PENDING),
    Place(registry, "find_feasible", about_odd_shape, *PENDING),
    Place(pending_pods, "is_daemonset_template", lambda kind: kind.namespace == ODD, *PENDING),
    Place(rules, "check_pod", about_odd_pod, *RUNNING),
    Place(readiness, "assess_node", about_odd_node, *NODE),
    Place(taints.TransientTaints, "mark_starting", about_odd_node, *NODE),
    Place(node_templates, "is_good_example", about_odd_node, *NODE),
    Place(eligibility, "check_node", about_odd_node, *NODE),
    Place(node_templates, "_with_price", lambda template, price: template.node.labels["pool"] == ODD, *GROUP),
    Place(node_table.NodeTable, "add_copies", about_odd_template, *GROUP),
    Place(engine_settings, "_override", lambda option, _: option == 0.123, *GROUP),
    Place(
        provisioning_request_queue,
        "find_expired",
        lambda found, *_: bool(found),
        FaultSubject.REQUEST,
        ("odd/odd",),
    ),
    Place(
        cluster_snapshot.Snapshot,
        "append_pods",
        lambda _, like, names: names == ["odd-buffer-0"],
        FaultSubject.BUFFER,
        ("odd/odd",),
    ),
    Place(
        node_templates, "runs_on", lambda spec, _: not spec.node_selector, FaultSubject.DAEMON_SET, ("kube-system/odd",)
    ),
    Place(
        pdb._NamespaceBudgets,
        "_file",
        lambda _, position, selector: selector == budget(1).selector and position == 1,
        FaultSubject.BUDGET,
        ("odd/odd",),
    ),
    Place(
        scale_up_status.Quota,
        "applies_to",
        lambda quota, _: quota.limits.get("nodes") == 100,
        FaultSubject.QUOTA,
        (ODD,),
    ),
    Place(priority, "find_priority", lambda group, rules: bool(rules), FaultSubject.PRIORITIES, ("rules",)),
]


def break_place(monkeypatch: pytest.MonkeyPatch, place: Place, error: type[Exception]) -> None:
    """Let the function raise for the odd object."""
    real = getattr(place.owner, place.name)

    @functools.wraps(real)
    def raising(*given: Any, **more: Any) -> Any:
        if place.is_odd(*given):
            raise error("odd")
        return real(*given, **more)

    monkeypatch.setattr(place.owner, place.name, raising)


def make_odd_world() -> Observation:
    """With an option, and a price, by which the odd group is known."""
    observation = make_world()
    marked = [
        replace(
            node_group,
            price_per_hour=1.0,
            options=replace(node_group.options, scale_down_gpu_utilization_threshold=0.123),
        )
        if node_group.id == ODD
        else node_group
        for node_group in observation.groups
    ]
    return replace(observation, groups=tuple(marked))


def test_the_world_needs_a_node_and_has_two_that_may_go() -> None:
    decision = decide_once(make_odd_world(), SETTINGS)
    assert sizes(decision).keys() == {"plain", "tenant"}
    assert {"idle-1", "idle-2", "busy-2", "odd-1"} <= set(drained(decision))
    assert not decision.faults


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("error", ERRORS)
def test_one_object_that_raises_costs_that_object(
    place: Place, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    observation = make_odd_world()
    frozen, generation = column_values.freeze(observation.snapshot), observation.snapshot.generation
    break_place(monkeypatch, place, error)
    decision = decide_once(observation, SETTINGS)
    assert [(fault.suspect.subject, fault.suspect.name) for fault in decision.faults] == [
        (place.subject, name) for name in place.objects
    ]
    assert decision.faults[0].error == f"{error.__name__}: {error('odd')}"
    assert column_values.freeze(observation.snapshot) == frozen
    assert (observation.snapshot.generation, observation.snapshot.forks) == (generation, 0)
    assert {"idle-1", "idle-2"} <= set(drained(decision)), "nodes that nobody needs go"
    if place.subject is not FaultSubject.QUOTA:
        assert sizes(decision)["plain"] == 2, "other namespaces' pods get their nodes"
        assert "tenant" in sizes(decision)
    else:
        assert not sizes(decision), "nothing grows while a quota cannot be read"
    again = decide_once(make_odd_world(), SETTINGS)
    assert (again.plan, again.memory.durable, again.faults) == (
        decision.plan, decision.memory.durable, decision.faults,
    )  # fmt: skip


def test_a_node_stays_on_which_a_pod_cannot_be_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    break_place(monkeypatch, Place(rules, "check_pod", about_odd_pod, *RUNNING), ValueError)
    assert "busy-2" not in drained(decide_once(make_odd_world(), SETTINGS))


def test_a_node_that_cannot_be_evaluated_stays_and_no_other_is_ordered_in_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    break_place(monkeypatch, Place(readiness, "assess_node", about_odd_node, *NODE), ValueError)
    decision = decide_once(make_odd_world(), SETTINGS)
    assert "odd-0" not in drained(decision)
    assert decision.story.upcoming.get(ODD, 0) == 0
    assert decision.story.repairs.stop is None


def test_a_group_that_cannot_be_evaluated_is_neither_resized_nor_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    break_place(monkeypatch, Place(node_table.NodeTable, "add_copies", about_odd_template, *GROUP), ValueError)
    observation = make_odd_world()
    observation.snapshot.add_pod(pending("for-odd", 3800, **pool(ODD)))
    observation.snapshot.add_pod(pending("for-odd-2", 3800, **pool(ODD)))
    decision = decide_once(observation, SETTINGS)
    assert ODD not in sizes(decision)
    assert not [name for name in drained(decision) if name.startswith(ODD)]
    assert sizes(decision)["plain"] == 2
    assert ODD not in {node_group.id for node_group in decision.evaluated.groups}


def test_a_budget_that_cannot_be_evaluated_keeps_the_pods_of_its_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = next(place for place in PLACES if place.subject is FaultSubject.BUDGET)
    break_place(monkeypatch, broken, ValueError)
    assert "busy-2" not in drained(decide_once(make_odd_world(), SETTINGS))


# ── Where no object raises by itself ─────────────────────────────────────────────────────────────────────────────


def test_a_node_is_blamed_for_what_only_its_trial_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    observation = make_odd_world()
    for number in range(3):
        observation.snapshot.add_pod(
            running(f"agent-{number}", f"busy-{number}", 10, namespace="kube-system", owner=AGENT)
        )
    row = observation.snapshot.nodes.rows["busy-2"]
    trial = Place(removal_simulator.RemovalSimulator, "_relocate", lambda _, tried, *__: tried == row, *NODE)
    break_place(monkeypatch, trial, KeyError)
    decision = decide_once(observation, SETTINGS)
    assert [str(fault.suspect) for fault in decision.faults] == ["Node busy-2"]
    assert {"idle-1", "idle-2", "odd-1"} <= set(drained(decision))
    assert sizes(decision) == {"plain": 2, "tenant": 2}


def test_a_pod_is_blamed_for_what_only_its_estimate_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_odd(_: Any, group: str, pods: Any, *__: Any) -> bool:
        return any(item.shape.namespace == ODD and item.shape.spec.node_selector for item in pods)

    break_place(monkeypatch, Place(template_fit.TemplateFit, "estimate", is_odd, *PENDING), OverflowError)
    decision = decide_once(make_odd_world(), SETTINGS)
    assert [(fault.suspect.subject, fault.suspect.name) for fault in decision.faults] == [PENDING_POD]
    assert sizes(decision) == {"plain": 2, "tenant": 1}


# ── Many at once ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_objects_of_several_kinds_that_raise_at_once_cost_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("static_mask", "check_pod", "append_pods", "add_copies"):
        break_place(monkeypatch, next(place for place in PLACES if place.name == name), ValueError)
    break_place(monkeypatch, Place(readiness, "assess_node", about_odd_node, *NODE), OverflowError)
    decision = decide_once(make_odd_world(), SETTINGS)
    blamed = {(fault.suspect.subject, fault.suspect.name) for fault in decision.faults}
    assert blamed == {
        PENDING_POD,
        RUNNING_POD,
        (FaultSubject.BUFFER, "odd/odd"),
        (FaultSubject.NODE, "odd-0"),
        (FaultSubject.GROUP, ODD),
    }
    assert sizes(decision)["plain"] == 2
    assert {"idle-1", "idle-2"} <= set(drained(decision))


PENDING_POD, RUNNING_POD = (FaultSubject.POD, "odd/odd-1"), (FaultSubject.POD, "odd/odd-2")


def test_a_namespace_with_too_many_odd_pods_is_left_out_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = count_runs(monkeypatch)
    observation = make_odd_world()
    for number in range(200):
        observation.snapshot.add_pod(pending(f"odd-many-{number}", 100 + number, namespace=ODD, **pool("tenant")))
    break_place(monkeypatch, Place(registry, "static_mask", about_odd_shape, *PENDING), ValueError)
    decision = decide_once(observation, SETTINGS)
    assert [(fault.suspect.subject, fault.suspect.name) for fault in decision.faults] == [(FaultSubject.NAMESPACE, ODD)]
    assert sizes(decision) == {"plain": 2, "tenant": 1}
    assert len(runs) <= quarantine.MOST_RUNS + quarantine.MOST_RUNS_IN_NAMESPACE + 5


def count_runs(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    runs: list[None] = []
    real = loop._run_steps

    def counted(state: Any) -> loop.Decision:
        runs.append(None)
        return real(state)

    monkeypatch.setattr(loop, "_run_steps", counted)
    return runs


# ── No object is to blame ────────────────────────────────────────────────────────────────────────────────────────


def fail(*_: Any, **__: Any) -> Any:
    raise ValueError("a bug")


def test_where_scale_down_raises_without_an_object_pods_get_their_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soft_taints, "update_soft_taints", fail)
    decision = decide_once(make_odd_world(), SETTINGS)
    assert sizes(decision) == {"plain": 2, "tenant": 2}
    assert not drained(decision)
    assert [fault.suspect.name for fault in decision.faults] == ["scale-down"]


def test_where_scale_up_raises_without_an_object_no_node_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_list, "process_pod_list", fail)
    decision = decide_once(make_odd_world(), SETTINGS)
    assert not [instruction for instruction in decision.plan if isinstance(instruction, plan.Resize | plan.Drain)]
    assert {fault.suspect.name for fault in decision.faults} == {"scale-up", "scale-down"}
    assert decision.story.scale_ups[0].result is scale_up_status.ScaleUpResult.NOT_TRIED


def test_where_nothing_can_be_decided_the_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upcoming_nodes, "find_upcoming_and_unready", fail)
    observation = make_odd_world()
    with pytest.raises(ValueError, match="a bug"):
        decide_once(observation, SETTINGS)
    assert observation.snapshot.forks == 0


# ── Later loops ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_raised_is_left_out_without_being_searched_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    break_place(monkeypatch, Place(registry, "static_mask", about_odd_shape, *PENDING), ValueError)
    runs, observation = count_runs(monkeypatch), make_odd_world()
    first = decide_once(observation, SETTINGS)
    searched = len(runs)
    assert searched > 2
    second = decide_once(observation, SETTINGS, first.memory, NOW_S + 10)
    assert len(runs) - searched == 1
    assert second.faults == first.faults
    third = decide_once(observation, SETTINGS, second.memory, NOW_S + RETRY_S + 1)
    assert len(runs) - searched <= 6, "tried again, and known at once"
    assert [fault.suspect for fault in third.faults] == [fault.suspect for fault in first.faults]
    assert third.faults[0].since_s == NOW_S + RETRY_S + 1


def test_what_raised_is_tried_again_once_it_is_different(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        break_place(broken, Place(registry, "static_mask", about_odd_shape, *PENDING), ValueError)
        observation = make_odd_world()
        first = decide_once(observation, SETTINGS)
    kept = LoopMemory(volatile=replace(first.memory.volatile, standing=None))
    assert sizes(decide_once(observation, SETTINGS, kept, NOW_S + 10))["tenant"] == 1
    observation.snapshot.add_pod(pending("odd-1", 3600, namespace=ODD, **pool("tenant")))
    decision = decide_once(observation, SETTINGS, kept, NOW_S + 10)
    assert not decision.faults
    assert sizes(decision)["tenant"] == 2


def test_what_no_longer_raises_is_evaluated_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        break_place(broken, Place(readiness, "assess_node", about_odd_node, *NODE), MemoryError)
        observation = make_odd_world()
        first = decide_once(observation, SETTINGS)
    assert first.faults
    assert not decide_once(observation, SETTINGS, first.memory, NOW_S + RETRY_S).faults


def test_a_quiet_decision_stands_while_something_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    members = [node("n-0"), node("n-1")]
    observation = observe(
        [group("g", members)],
        members,
        [running("a", "n-0", 3900), running("odd-b", "n-1", 3900, namespace=ODD)],
    )
    break_place(monkeypatch, Place(rules, "check_pod", about_odd_pod, *RUNNING), ValueError)
    runs = count_runs(monkeypatch)
    first = decide_once(observation, WINDLASS)
    second = decide_once(observation, WINDLASS, first.memory, NOW_S + 1)
    made = len(runs)
    third = decide_once(observation, WINDLASS, second.memory, NOW_S + 2)
    assert len(runs) == made
    assert third.faults == first.faults != ()
    assert third.quiet_until_s <= NOW_S + RETRY_S


# ── The search ───────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.integers(1, 60), st.data())
@settings(max_examples=60, deadline=None)
def test_the_search_finds_exactly_those_that_must_go(count: int, data: st.DataObject) -> None:
    suspects = [Suspect(FaultSubject.NODE, str(number)) for number in range(count)]
    guilty = data.draw(st.sets(st.sampled_from(suspects), min_size=1, max_size=5))
    search = SubsetSearch(lambda out: guilty <= set(out), 10_000)
    assert set(search.find(suspects)) == guilty
    assert search.is_exact


@given(st.integers(1, 200), st.integers(0, 20), st.data())
@settings(max_examples=60, deadline=None)
def test_a_search_that_may_not_go_on_finds_too_many_rather_than_too_few(
    count: int, most_runs: int, data: st.DataObject
) -> None:
    suspects = [Suspect(FaultSubject.NODE, str(number)) for number in range(count)]
    guilty = data.draw(st.sets(st.sampled_from(suspects), min_size=1))
    asked: list[Sequence[Suspect]] = []

    def works(out: Sequence[Suspect]) -> bool:
        asked.append(out)
        return guilty <= set(out)

    assert guilty <= set(SubsetSearch(works, most_runs).find(suspects))
    assert len(asked) <= most_runs


def test_of_two_that_would_do_the_first_is_blamed() -> None:
    suspect, other = Suspect(FaultSubject.NAMESPACE, "tenant"), Suspect(FaultSubject.GROUP, "g")
    assert SubsetSearch(lambda out: bool(out), 100).find([suspect, other]) == [suspect]


# ── Odd facts ────────────────────────────────────────────────────────────────────────────────────────────────────

odd_numbers = st.sampled_from([0, -1, 1, 2**31, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, -(2**70)])
odd_texts = st.sampled_from(["", "\x00", "a" * 5000, "9" * 4400, "\ud800", "١٢٣", "NaN", "-", "true"])
odd_times = st.sampled_from([0.0, -1e300, 1e300, float("nan"), float("inf"), float("-inf")])
odd_resources = st.dictionaries(
    st.sampled_from(["cpu", "memory", "pods", "x/y", "nvidia.com/gpu"]), odd_numbers, max_size=3
).map(lambda found: tuple(sorted(found.items())))


@st.composite
def odd_observations(draw: st.DrawFn) -> Observation:
    """A cluster in which a pod, a node, a group and a request may be anything; only what the snapshot takes."""
    observation = make_odd_world()
    spec = facts.PodSpec(requests=draw(odd_resources), priority=draw(st.none() | odd_numbers))
    odd_pods = [
        facts.Pod(
            ODD, f"odd-x{number}", f"uid-x{number}", {draw(odd_texts): draw(odd_texts)},
            {draw(odd_texts): draw(odd_texts)}, spec=spec, node_name=draw(st.sampled_from(["", "busy-2"])),
            created_s=draw(odd_times), unschedulable_since_s=draw(odd_times), grace_s=draw(st.none() | odd_times),
        )
        for number in range(2)
    ]  # fmt: skip
    odd_node = facts.Node(
        "odd-0", "u", {"pool": ODD, draw(odd_texts): draw(odd_texts)}, {draw(odd_texts): draw(odd_texts)},
        tuple(facts.Taint(key, draw(odd_texts), "NoSchedule") for key in (draw(odd_texts), taints.TO_BE_DELETED_KEY)),
        allocatable=draw(odd_resources), capacity=draw(odd_resources), provider_id="id://odd-0",
        created_s=draw(odd_times), conditions=(facts.Condition("Ready", draw(odd_texts), draw(odd_times)),),
    )  # fmt: skip
    for add, item in (
        (observation.snapshot.add_node, odd_node),
        *((observation.snapshot.add_pod, pod) for pod in odd_pods),
    ):
        try:
            add(item)  # type: ignore[operator]
        except Exception:
            return make_odd_world()  # the informer sets it aside, and the snapshot is not looked at again
    odd_group = next(node_group for node_group in observation.groups if node_group.id == ODD)
    odd_group = replace(
        odd_group, min_size=draw(odd_numbers), max_size=draw(odd_numbers), target_size=draw(odd_numbers),
        template=replace(odd_node, name="t", allocatable=draw(odd_resources), capacity=draw(odd_resources)),
        price_per_hour=draw(st.none() | odd_times),
        options=replace(odd_group.options, scale_down_unneeded_s=draw(odd_times)),
    )  # fmt: skip
    groups = tuple(odd_group if one.id == ODD else one for one in observation.groups)
    requests = tuple(replace(request, created_s=draw(odd_times)) for request in observation.requests)
    return replace(observation, groups=groups, requests=requests)


@given(odd_observations())
@settings(max_examples=60, deadline=None)
def test_no_fact_however_odd_keeps_other_pods_from_their_nodes(observation: Observation) -> None:
    frozen = column_values.freeze(observation.snapshot)
    decision = decide_once(observation, SETTINGS, LoopMemory())
    assert column_values.freeze(observation.snapshot) == frozen
    if decision.story.repairs.stop is None:
        skipped = {reason for proposal in decision.story.scale_ups for reason in proposal.skipped.get("plain", ())}
        assert sizes(decision).get("plain") == 2 or skipped, "unless a node or template claims more than limits allow"
        assert not decision.faults or {fault.suspect.subject for fault in decision.faults} != {FaultSubject.PART}
    again = decide_once(observation, SETTINGS, LoopMemory())
    assert (again.plan, again.faults) == (decision.plan, decision.faults)
