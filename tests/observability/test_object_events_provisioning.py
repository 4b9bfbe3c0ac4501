"""What is told of requests: to the pods that use one, and in the log."""

from tests.engine.capacity_apis.provisioning_clusters import make, request
from windlass.engine.capacity_apis import provisioning_request_queue
from windlass.engine.loop import decide
from windlass.engine.model import facts
from windlass.engine.model.provisioning import CONSUME_ANNOTATION
from windlass.explain.decision_view import DecisionView
from windlass.observability import decision_log, object_events


def test_pods_that_use_a_request_are_told_that_they_trigger_nothing() -> None:
    world = make(sizes={"a": 0})
    asks = facts.PodSpec(requests=(("cpu", 1000),))
    world.pods = [
        facts.Pod("ns", f"p{n}", f"p{n}", annotations={CONSUME_ANNOTATION: "r"}, spec=asks, unschedulable_since_s=1.0)
        for n in range(60)
    ]
    observation = world.observe()
    decision = decide(observation, world.memory, world.settings, world.now_s)
    events = list(object_events.consumer_events(observation, decision.story))
    assert len(events) == 50, "so many in a loop"
    assert {event.reason for event in events} == {"NotTriggerScaleUp"}
    assert events[0].message == "pod didn't trigger scale-up: it uses ProvisioningRequest ns/r"


def test_the_log_names_the_request_that_nodes_were_asked_for() -> None:
    world = make(request("r", 4, kind=provisioning_request_queue.ATOMIC_SCALE_UP_CLASS), sizes={"a": 0})
    assert decision_log.summarize_decision(DecisionView(world.loop())) == [
        'scaling up: groups="a 0→1" requests=ns/r unschedulable_pods=0',
        "answered ProvisioningRequest: request=ns/r reason=CapacityIsProvisioned",
    ]
