"""No count in an object, however large, decides how long a loop takes or how much memory it needs.

A loop over 2^31 or 2^63 of anything would not end: that these tests do is what they check.
"""

from dataclasses import replace

import pytest

from tests.engine.capacity_apis.provisioning_clusters import NOW_S, SERVED, make, make_pod, request
from tests.engine.dra import builders
from windlass.autoscaler.capacity_apis import provisioning_requests
from windlass.engine.capacity_apis import capacity_buffer
from windlass.engine.loop import decide
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import facts, provisioning
from windlass.engine.model import settings as model_settings
from windlass.engine.model.provisioning import Condition
from windlass.engine.model.settings import InjectionSettings, Settings
from windlass.engine.snapshot import cluster_snapshot
from windlass.kube.models import pods
from windlass.selectors import LabelSelector

INT32, INT64 = 2**31 - 1, 2**63 - 1
CEILING = 2**55
"""Amounts are read as at most this."""
PROACTIVE = Settings(injection=InjectionSettings(enable_proactive_scaleup=True))
OWNER = facts.Owner("apps/v1", "ReplicaSet", "rs", "uid-rs")


def pod(name: str, spec: facts.PodSpec | None = None, **more: object) -> facts.Pod:
    asked = spec or facts.PodSpec(requests=(("cpu", 2000),))
    made = facts.Pod("ns", name, name, owner=OWNER, spec=asked, created_s=NOW_S - 100, digest=f"{name} {asked}")
    return replace(made, unschedulable_since_s=NOW_S - 90, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["ReplicaSet", "Job"])
def test_controllers_that_want_too_many_pods_grow_groups_to_their_maximum(kind: str) -> None:
    owner = replace(OWNER, kind=kind)
    world = make(sizes={"a": 0}, settings=PROACTIVE, pods=[pod("p", owner=owner)])
    world.controllers = {
        (kind, "ns", f"rs-{number}"): facts.Controller(kind, "ns", f"rs-{number}", uid, INT32)
        for number, uid in enumerate(("uid-rs", "uid-other"))
    }
    world.loop()
    assert world.sizes == {"a": 10}


def test_a_request_for_too_many_pods_is_refused_and_says_so() -> None:
    asked = request("r", INT32)
    template = pods.PodTemplate()
    world = make(provisioning_requests.make_pods(asked, {"ns/t": template}))
    world.loop()
    said = "; ".join(condition.message for condition in world.requests["r"].conditions)
    assert f"{INT32} pods are requested, more than {model_settings.MAX_INJECTED_PODS}" in said
    assert world.sizes == {"a": 2}


def test_a_request_for_as_many_pods_as_a_cluster_runs_is_looked_at() -> None:
    world = make(request("r", model_settings.MAX_INJECTED_PODS))
    world.loop()
    assert world.said("r")["Provisioned"] == ("False", "CapacityIsNotFound")


def test_a_buffer_of_too_many_replicas_keeps_room_for_as_many_as_a_cluster_runs() -> None:
    conditions = (Condition(capacity_buffer.READY_FOR_PROVISIONING, "True", "", "", 0.0),)
    status = capacity_buffer.BufferStatus("t", 1, INT32, capacity_buffer.ACTIVE_STRATEGY, conditions)
    made = capacity_buffer.inject_buffer(capacity_buffer.CapacityBuffer("ns", "b", status=status), lambda _: 1, NOW_S)
    assert made.pods == model_settings.MAX_INJECTED_PODS
    observation = make(sizes={"a": 0}).observe()
    spare = provisioning.BufferPods(make_pod("b", 1), tuple(f"b-{number}" for number in range(made.pods)))
    settings = Settings(injection=InjectionSettings(capacity_buffer_pod_injection_enabled=True))
    decision = decide(replace(observation, spares=(spare,)), LoopMemory(), settings, NOW_S)
    assert [increase.new_size for proposal in decision.story.scale_ups for increase in proposal.increases] == [10]


def test_groups_of_enormous_size_let_the_others_grow() -> None:
    world = make(sizes={"a": 1, "b": INT32}, most={"b": INT32}, pods=[pod(f"p{number}") for number in range(4)])
    world.nodes = {"a": 1, "b": 1}
    world.loop()
    assert world.sizes["b"] == INT32


@pytest.mark.parametrize(
    "spec",
    [
        facts.PodSpec(requests=(("cpu", CEILING),)),
        facts.PodSpec(requests=(("cpu", 1), ("example.com/x", CEILING))),
        facts.PodSpec(
            requests=(("cpu", 1),),
            spread=(facts.SpreadConstraint(facts.HOSTNAME, INT32, LabelSelector.of(()), INT32),),
        ),
    ],
)
def test_pods_that_ask_for_enormous_amounts_get_nothing_and_cost_no_other_its_node(spec: facts.PodSpec) -> None:
    world = make(sizes={"a": 0}, pods=[pod("odd", spec), pod("p")])
    world.loop()
    assert world.sizes == {"a": 1}


@pytest.mark.parametrize("count", [INT64, -INT64])
def test_claims_and_extended_resources_of_enormous_counts_take_no_device(count: int) -> None:
    observation = make(sizes={"a": 1}).observe()
    extended = facts.PodSpec(
        requests=(("cpu", 1), (builders.ACCEL, min(max(count, 0), CEILING))),
        extended=(facts.ExtendedRequest("c", builders.ACCEL, count),),
    )
    claimed = facts.PodSpec(requests=(("cpu", 1),), claims=(facts.PodClaim("g", "c"),))
    waiting = [pod("x", extended), pod("c", claimed, namespace="default"), pod("p")]
    kept = cluster_snapshot.build_snapshot(observation.nodes, waiting)
    claim = builders.claim("c", builders.asks(builders.wanted(count)))
    kept.devices.inventory.put_all([builders.STANDS_FOR, builders.gpus("a-0", 4), claim])
    decision = decide(replace(observation, snapshot=kept), LoopMemory(), SERVED, NOW_S)
    assert decision.faults == ()


def test_a_budget_that_allows_enormous_disruption_is_one_that_allows_what_there_is() -> None:
    world = make(sizes={"a": 2})
    budget = facts.PodDisruptionBudget("ns", "b", LabelSelector.of(()), INT32)
    observation = replace(world.observe(), budgets=(budget,))
    assert decide(observation, LoopMemory(), SERVED, NOW_S).faults == ()
