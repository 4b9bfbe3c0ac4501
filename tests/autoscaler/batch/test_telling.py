"""What is told of requests: to the pods that use one, and in the log."""

from tests.engine.provisioning.worlds import make, request
from windlass.engine.capacity_apis import provisioning_conditions
from windlass.engine.loop import decide
from windlass.engine.model import facts
from windlass.engine.model.provisioning import CONSUME_ANNOTATION
from windlass.observability import decision_log, object_events


def test_pods_that_use_a_request_are_told_that_they_trigger_nothing() -> None:
    world = make(sizes={"a": 0})
    asks = facts.PodSpec(requests=(("cpu", 1000),))
    world.pods = [
        facts.Pod("ns", f"p{n}", f"p{n}", annotations={CONSUME_ANNOTATION: "r"}, spec=asks, unschedulable_since_s=1.0)
        for n in range(60)
    ]
    seen = world.observe()
    decision = decide(seen, world.memory, world.settings, world.now_s)
    told = list(object_events.consumer_events(seen, decision.story))
    assert len(told) == 50, "so many in a loop"
    assert {one.reason for one in told} == {"NotTriggerScaleUp"}
    assert told[0].message == "pod didn't trigger scale-up: it uses ProvisioningRequest ns/r"


def test_the_log_names_the_request_that_nodes_were_asked_for() -> None:
    world = make(request("r", 4, kind=provisioning_conditions.ATOMIC_SCALE_UP_CLASS), sizes={"a": 0})
    assert decision_log.summarize_decision(world.loop()) == [
        "scale up a 0→1 for ProvisioningRequest ns/r",
        "ProvisioningRequest ns/r: CapacityIsProvisioned",
    ]
