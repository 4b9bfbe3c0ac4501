"""1,000 check-capacity requests in one batch against 5,000 nodes that run 50,000 pods; then the loop that books them.

Each request asks for 20 pods of one of 20 templates; every tenth asks for more than any node has left, so that both
answers are given.
"""

from dataclasses import replace

from benchmarks import clusters, loops
from windlass.engine.capacity_apis import provisioning_request_queue
from windlass.engine.model import facts, plan
from windlass.engine.model.provisioning import CONSUME_ANNOTATION, PodSet, ProvisioningRequest
from windlass.engine.model.settings import ProvisioningRequestSettings, ScaleDownSettings, Settings

NODES, PODS_PER_NODE, REQUESTS, PODS, TEMPLATES = 5_000, 10, 1_000, 20, 20

SETTINGS = Settings(
    provisioning_requests=ProvisioningRequestSettings(
        enable_provisioning_requests=True,
        check_capacity_batch_processing=True,
        check_capacity_provisioning_request_max_batch_size=REQUESTS,
    ),
    scale_down=ScaleDownSettings(scale_down_enabled=False),
)


def run() -> dict[str, float]:
    nodes = [loops.member(number, "a", 8_000, 32 * clusters.GIB) for number in range(NODES)]
    spec = facts.PodSpec(requests=clusters.requests(500, clusters.GIB))
    running = (
        pod
        for number, node in enumerate(nodes)
        for pod in clusters.pods_of(f"app-{number % 100}", PODS_PER_NODE, spec, number * PODS_PER_NODE, node.name)
    )
    template = replace(nodes[0], name="template", provider_id="")
    observation, _ = loops.observe(nodes, running, [loops.group("a", nodes, template, 2 * NODES)])
    observation = replace(observation, requests=tuple(_ask(number) for number in range(REQUESTS)))
    seconds, decision = loops.best(3, lambda: loops.decide_once(observation, SETTINGS))
    said = {
        instruction.name: instruction.conditions
        for instruction in decision.plan
        if isinstance(instruction, plan.SetConditions)
    }
    answered = tuple(replace(request, conditions=said[request.name]) for request in observation.requests)
    after = replace(observation, requests=answered)
    booking, booked = loops.best(3, lambda: loops.decide_once(after, SETTINGS, decision.memory, loops.NOW_S + 10))
    return {
        "seconds": seconds,
        "found": sum(
            provisioning_request_queue.is_condition_true(provisioning_request, provisioning_request_queue.PROVISIONED)
            for provisioning_request in answered
        ),
        "not_found": sum(
            not provisioning_request_queue.is_condition_true(one, provisioning_request_queue.PROVISIONED)
            for one in answered
        ),
        "seconds_booking": booking,
        "booked_pods": sum(booked.story.requests.booked.values()),
    }


def _ask(number: int) -> ProvisioningRequest:
    """Every tenth asks for pods that are larger than any node has left."""
    name, kind = f"request-{number:04d}", number % TEMPLATES
    millicpu = 4_000 if number % 10 == 9 else 100 * (1 + kind % 10)
    pod = facts.Pod(
        "batch",
        name,
        owner=facts.Owner("autoscaling.x-k8s.io/v1", "ProvisioningRequest", name, f"uid-{name}"),
        annotations={CONSUME_ANNOTATION: name},
        spec=facts.PodSpec(requests=clusters.requests(millicpu, clusters.GIB // 4)),
        digest=f"template-{kind}-{millicpu}",
        created_s=loops.NOW_S - 60,
    )
    sets = (PodSet(f"template-{kind}", PODS, pod),)
    return ProvisioningRequest(
        "batch",
        name,
        f"uid-{name}",
        provisioning_request_queue.CHECK_CAPACITY_CLASS,
        sets,
        created_s=loops.NOW_S - 60,
    )
