"""What is explained of a pod is what the loop decided on: buffers, proactive pods and requests are part of it."""

from dataclasses import replace
from typing import Any

import pytest

from tests.engine.capacity_apis import provisioning_clusters
from tests.engine.loop import builders
from tests.engine.loop.builders import NOW_S
from windlass.engine import loop_memory, time_limits
from windlass.engine.model import facts
from windlass.engine.model.provisioning import CONSUME_ANNOTATION, BufferPods
from windlass.engine.model.scale_up_status import Quota
from windlass.engine.model.settings import Settings
from windlass.engine.observation import DecisionPart, Exclusions, Observation
from windlass.explain import cluster, explain_context, pods, queries
from windlass.explain.decision_view import PodState
from windlass.explain.pods import PodExplanation
from windlass.selectors import LabelSelector, Operator, Requirement

INJECTING = builders.choose(Settings(), "injection", capacity_buffer_pod_injection_enabled=True)
PROACTIVE = builders.choose(Settings(), "injection", enable_proactive_scaleup=True)


def take(observation: Observation, settings: Settings) -> explain_context.ExplainContext:
    return explain_context.evaluate(observation, loop_memory.LoopMemory(), settings, NOW_S)


def describe(at: explain_context.ExplainContext, uid: str) -> PodExplanation:
    return pods.explain_pod(at, at.snapshot.pods.rows[uid])


def test_a_pod_whose_room_a_buffer_keeps_is_told_of_the_node_that_is_added_for_it() -> None:
    there = builders.nodes("g", 1, cpu=1000)
    spare = BufferPods(builders.pending("buffer", cpu=800), ("capacity-buffer-x-1",))
    observation = builders.observe(
        [builders.group("g", there)], there, [builders.pending("web", cpu=600)], spares=(spare,)
    )
    at = take(observation, INJECTING)
    assert builders.sizes(at.decision) == {"g": 2}
    assert (describe(at, "uid-web").state, describe(at, "uid-web").group) == (PodState.HELPED, "g")
    assert [pending_pods.state for pending_pods in cluster.explain_cluster(at).waiting] == [PodState.HELPED]


def test_a_pod_beside_those_that_its_controller_will_create_is_told_where_the_loop_puts_it() -> None:
    """The copy of the larger pod takes the node that exists."""
    there = [*builders.nodes("g", 1, cpu=1000), *builders.nodes("h", 1, cpu=1000)]
    large = facts.Owner("apps/v1", "ReplicaSet", "large", "uid-large")
    wanting = facts.Controller("ReplicaSet", "default", "large", "uid-large", replicas=2)
    observation = builders.observe(
        [builders.group("g", there[:1]), builders.group("h", there[1:], max_size=1)],
        there,
        [builders.running("first", "h-0", cpu=900, owner=large), builders.pending("web", cpu=600)],
        controllers={("ReplicaSet", "default", "large"): wanting},
    )
    at = take(observation, PROACTIVE)
    assert builders.sizes(at.decision) == {"g": 2}
    assert describe(at, "uid-web").state is PodState.HELPED


def test_a_pod_that_a_later_round_helps_is_told_what_groups_say_in_that_round() -> None:
    """It must be near another pod, for which the first round orders a node."""
    near = facts.PodAffinityTerm("zone", LabelSelector.of([Requirement("app", Operator.IN, ("first",))]), ("default",))
    groups = [
        builders.group(
            name, template=builders.node(f"{name}-template", provider_id="", labels={"zone": "z", "disk": name})
        )
        for name in ("g", "h")
    ]
    first = builders.pending("first", labels={"app": "first"}, spec={"node_selector": (("disk", "g"),)})
    then = builders.pending("then", spec={"node_selector": (("disk", "h"),), "affinity": (near,)})
    at = take(builders.observe(groups, (), [first, then]), Settings())
    assert builders.sizes(at.decision) == {"g": 1, "h": 1}
    pod_explanation = describe(at, "uid-then")
    assert (pod_explanation.state, pod_explanation.group) == (PodState.HELPED, "h")
    assert [group_verdict.helps for group_verdict in pod_explanation.groups] == [False, True]


def test_a_pod_that_uses_what_a_request_asked_for_is_told_that_no_node_is_added_for_it() -> None:
    there = builders.nodes("g", 1, cpu=1000)
    using = builders.pending("using", cpu=1000, annotations={CONSUME_ANNOTATION: "room"})
    observation = builders.observe(
        [builders.group("g", there)], there, [using, builders.running("full", "g-0", cpu=900)]
    )
    at = take(observation, provisioning_clusters.SERVED)
    assert at.decision.story.requests.ignored == (at.snapshot.pods.rows["uid-using"],)
    account = describe(at, "uid-using")
    assert (account.state, account.why) == (PodState.USES_REQUEST, "default/room")
    told = "\n".join(queries.render_explanation(account))
    assert "ProvisioningRequest default/room" in told


def test_a_pod_that_waits_while_a_request_is_served_is_told_so() -> None:
    world = provisioning_clusters.make(provisioning_clusters.request("batch", 1, cores=1))
    world.pods = [
        builders.pending("web", cpu=4000),
        *(builders.running(f"full-{n}", f"a-{n}", cpu=3000) for n in range(2)),
    ]
    durable = world.memory.durable
    served = replace(world.memory, durable=replace(durable, requests=replace(durable.requests, is_next=True)))
    at = explain_context.evaluate(world.observe(), served, provisioning_clusters.SERVED, NOW_S)
    assert not builders.sizes(at.decision)
    account = describe(at, "uid-web")
    assert (account.state, account.why) == (PodState.LATER, "ProvisioningRequest ns/batch is served in this loop")
    assert "ns/batch" in "\n".join(queries.render_explanation(account))


def test_pods_are_told_that_nothing_is_scaled_up_where_scale_up_could_not_be_evaluated() -> None:
    there = builders.nodes("g", 1, cpu=1000)
    observation = builders.observe([builders.group("g", there)], there, [builders.pending("web", cpu=1000)])
    observation = replace(
        observation, left_out=Exclusions(parts=frozenset({DecisionPart.SCALE_UP, DecisionPart.SCALE_DOWN}))
    )
    at = take(observation, Settings())
    account = describe(at, "uid-web")
    assert account.state is PodState.LOOP_ENDED
    assert "could not be evaluated" in account.why


def test_a_full_cluster_is_told_where_minimum_sizes_are_enforced_as_well() -> None:
    there = builders.nodes("g", 1, cpu=1000)
    settings = builders.choose(Settings(), "scale_up", enforce_node_group_min_size=True)
    settings = builders.choose(settings, "limits", max_nodes_total=1)
    full = builders.running("full", "g-0", cpu=1000)
    at = take(builders.observe([builders.group("g", there)], there, [full, builders.pending("web")]), settings)
    account = describe(at, "uid-web")
    assert (account.state, account.limit) == (PodState.MAX_NODES, 1)


def fill(group_max: int, count: int, settings: Settings, **more: Any) -> explain_context.ExplainContext:
    """So many pods that need a node each, beside a node that is full."""
    there = builders.nodes("g", 1, cpu=1000)
    template = builders.node("t", 1000, provider_id="")
    waiting = [builders.pending(f"web-{number}", cpu=900) for number in range(count)]
    found = [builders.running("full", "g-0", cpu=1000), *waiting]
    return take(
        builders.observe([builders.group("g", there, max_size=group_max, template=template)], there, found, **more),
        settings,
    )


@pytest.mark.parametrize("settings", builders.BOTH)
def test_a_pod_for_which_the_group_has_no_node_left_is_told_that_it_is_full_after_this_loop(settings: Settings) -> None:
    at = fill(3, 4, settings)
    assert builders.sizes(at.decision) == {"g": 3}
    pod_explanations = [describe(at, f"uid-web-{number}") for number in range(4)]
    assert [pod_explanation.state for pod_explanation in pod_explanations] == [
        PodState.HELPED,
        PodState.HELPED,
        PodState.HELD,
        PodState.HELD,
    ]
    assert "max node group size reached: 3 of at most 3 nodes, 1 before the next loop" in "\n".join(
        queries.render_explanation(pod_explanations[-1])
    )
    assert "let the group have 4 nodes" in "\n".join(queries.render_explanation(pod_explanations[-1]))
    assert (
        sum(
            pending_pods.count
            for pending_pods in cluster.explain_cluster(at).waiting
            if pending_pods.state is PodState.HELD
        )
        == 2
    )


@pytest.mark.parametrize("settings", builders.BOTH)
def test_pods_beyond_the_nodes_of_one_scale_up_are_told_that_they_come_later(settings: Settings) -> None:
    at = fill(10, 3, builders.choose(settings, "scale_up", max_nodes_per_scaleup=1))
    assert builders.sizes(at.decision) == {"g": 2}
    pod_states = [describe(at, f"uid-web-{number}").state for number in range(3)]
    assert pod_states == [PodState.HELPED, PodState.LATER, PodState.LATER]


@pytest.mark.parametrize("settings", builders.BOTH)
def test_pods_whose_nodes_a_quota_cuts_are_told_that_some_of_them_wait(settings: Settings) -> None:
    at = fill(10, 4, settings, quotas=(Quota("cores", {"cpu": 3}),))
    assert builders.sizes(at.decision) == {"g": 3}
    told = "\n".join(queries.render_explanation(describe(at, "uid-web-0")))
    assert "4 pods would need 4 nodes, and limits allow 2: some wait." in told


def test_what_a_recorded_loop_had_no_time_for_is_not_explained_as_done() -> None:
    """Rounds end where they ended: the second group did not grow."""
    there = [
        *builders.nodes("a", 1, cpu=1000, labels={"kind": "a"}),
        *builders.nodes("b", 1, cpu=1000, labels={"kind": "b"}),
    ]
    wanting = [builders.pending(name, cpu=900, spec={"node_selector": (("kind", name),)}) for name in ("a", "b")]
    full = [builders.running(f"full-{node.name}", node.name, cpu=1000) for node in there]
    observation = builders.observe(
        [builders.group("a", there[:1]), builders.group("b", there[1:])], there, [*full, *wanting]
    )
    late = time_limits.ReplayedTimer({"rounds": 1})
    at = explain_context.evaluate(observation, loop_memory.LoopMemory(), Settings(), NOW_S, late)
    (grown,) = builders.sizes(at.decision)
    pod_states = {name: describe(at, f"uid-{name}").state for name in ("a", "b")}
    assert pod_states == {grown: PodState.HELPED, "b" if grown == "a" else "a": PodState.LATER}


def test_a_loop_that_ended_early_found_no_room_for_any_pod() -> None:
    there = builders.nodes("g", 6, conditions=builders.NOT_READY)
    at = take(builders.observe([builders.group("g", there)], there, [builders.pending("web")]), Settings())
    assert at.decision.story.repairs.stop is not None
    assert describe(at, "uid-web").state is PodState.LOOP_ENDED
    assert sum(cluster.explain_cluster(at).node_states.values()) == len(there)
