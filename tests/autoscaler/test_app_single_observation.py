"""A cluster that is looked at once: everything is read, nothing is written."""

from collections.abc import Callable

import pytest

from tests.autoscaler.capacity_apis import api_objects
from tests.providers.clusterapi import management_cluster
from windlass import clock
from windlass.autoscaler import app
from windlass.autoscaler.options.process_options import ProcessOptions
from windlass.engine.capacity_apis import provisioning_request_queue
from windlass.engine.model.settings import InjectionSettings, LimitSettings, ProvisioningRequestSettings, Settings
from windlass.explain import cluster, explain_context
from windlass.kube import request_builders, resources
from windlass.providers.clusterapi import auto_discovery

NOW_S = 1_700_000_000.0
BATCH = Settings(
    provisioning_requests=ProvisioningRequestSettings(enable_provisioning_requests=True),
    injection=InjectionSettings(capacity_buffer_pod_injection_enabled=True),
    limits=LimitSettings(capacity_quotas_enabled=True),
)
"""Served by an autoscaler; whoever looks once writes no status."""


def look_once(
    settings: Settings, arrange: Callable[[management_cluster.Bed], object] = lambda _: None
) -> cluster.ClusterExplanation:
    """What is told of a cluster. Nothing may be written meanwhile."""
    time = clock.VirtualClock(NOW_S)
    bed = management_cluster.Bed(time, "v1beta2", auto_discovery.Config())
    arrange(bed)

    async def main() -> app.DecisionInputs:
        servers = app.ApiServers(bed.carrier, bed.carrier)
        return await app.observe_connected(servers, settings, ProcessOptions(), auto_discovery.Config(), time)

    cluster_explanation = cluster.explain_cluster(explain_context.evaluate(*time.run(main())))
    assert {call.method for call in bed.carrier.sent} == {"GET"}
    return cluster_explanation


def arrange_batch(bed: management_cluster.Bed) -> None:
    for kind in api_objects.KINDS:
        api_objects.install(bed, kind)
    bed.group("g", 0, annotations=management_cluster.enough())
    api_objects.add_template(bed, cpu="3")


def report(
    bed: management_cluster.Bed, resource: resources.Resource[api_objects.Json], name: str, status: api_objects.Json
) -> None:
    """As an autoscaler that runs there has said."""
    namespace = "default" if resource.namespaced else ""
    patch = request_builders.build_merge_patch(resource, name, {"status": status}, namespace, subresource="status")
    assert bed.server.handle(patch).status == 200


def condition(about: str) -> api_objects.Json:
    moment = "2023-11-14T22:13:20Z"
    return {"type": about, "status": "True", "reason": "Said", "message": "", "lastTransitionTime": moment}


def ask(bed: management_cluster.Bed) -> None:
    arrange_batch(bed)
    api_objects.ask(bed, "r", 2, provisioning_request_queue.ATOMIC_SCALE_UP_CLASS)


def keep_spare(bed: management_cluster.Bed) -> None:
    arrange_batch(bed)
    api_objects.add_buffer(bed, "b", podTemplateRef={"name": "t"}, replicas=2)
    ready = {"podTemplateRef": {"name": "t"}, "replicas": 2, "provisioningStrategy": api_objects.ACTIVE}
    report(bed, resources.CAPACITY_BUFFERS.untyped(), "b", {**ready, "conditions": [condition("ReadyForProvisioning")]})


def limit(bed: management_cluster.Bed) -> None:
    """A buffer that a quota leaves room for one pod of."""
    keep_spare(bed)
    api_objects.add_quota(bed, "q", {"nodes": "1"})
    valid = condition("cluster-autoscaler.kubernetes.io/valid")
    report(bed, resources.CAPACITY_QUOTAS.untyped(), "q", {"conditions": [valid]})


def test_a_cluster_is_read_and_nothing_is_written() -> None:
    cluster_explanation = look_once(Settings())
    assert (
        cluster_explanation.nodes,
        cluster_explanation.pending,
        cluster_explanation.loop,
        cluster_explanation.steps,
    ) == (0, 0, 0, ())


@pytest.mark.parametrize(
    ("arrange", "to", "why"),
    [(ask, 2, "ProvisioningRequest default/r"), (keep_spare, 2, "pods to come"), (limit, 1, "pods to come")],
    ids=["requests", "buffers", "quotas"],
)
def test_what_the_live_loop_would_do_about_objects_of_batch_is_told(
    arrange: Callable[[management_cluster.Bed], None], to: int, why: str
) -> None:
    (grow, *_) = look_once(BATCH, arrange).steps
    assert f"MachineDeployment/default/g from 0 to {to}" in grow.text
    assert grow.why == f"for {why}"


def test_the_answer_that_a_request_would_get_is_told() -> None:
    steps = [step.text for step in look_once(BATCH, ask).steps]
    assert any("ProvisioningRequest default/r" in item and "CapacityIsProvisioned" in item for item in steps), steps


def test_objects_of_batch_are_left_alone_where_no_flag_says_otherwise() -> None:
    assert look_once(Settings(), ask).steps == ()
