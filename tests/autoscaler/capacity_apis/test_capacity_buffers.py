"""CapacityBuffers on an API server: their status kept, their room made, and kept from scale-down."""

from dataclasses import replace

import pytest

from tests.autoscaler.capacity_apis.api_objects import (
    Json,
    add_buffer,
    add_template,
    message,
    played,
    reasons,
    serving,
    status,
)
from tests.autoscaler.in_process_cluster import Cluster
from windlass import quantity
from windlass.autoscaler.capacity_apis import buffer_templates
from windlass.engine.capacity_apis import capacity_buffer
from windlass.engine.model.provisioning import Condition
from windlass.engine.model.settings import GroupDefaults, InjectionSettings, Settings
from windlass.kube import resources

SPARE = Settings(
    injection=InjectionSettings(capacity_buffer_controller_enabled=True, capacity_buffer_pod_injection_enabled=True)
)
QUICK = replace(SPARE, groups=GroupDefaults(scale_down_unneeded_time_s=30.0))
ALONE = replace(SPARE, injection=replace(SPARE.injection, capacity_buffer_pod_dry_run_enabled=False))
READY = "ReadyForProvisioning"


async def told(cluster: Cluster, name: str) -> tuple[dict[str, str], int | None]:
    """The reason of each condition, and the replicas."""
    found = await status(cluster, resources.CAPACITY_BUFFERS, name)
    return reasons(found), found.get("replicas")


async def own_template(cluster: Cluster, name: str) -> Json:
    """The spec of the pods that a buffer keeps room for."""
    found = await status(cluster, resources.CAPACITY_BUFFERS, name)
    template = await cluster.api.get(resources.POD_TEMPLATES.untyped(), found["podTemplateRef"]["name"], "default")
    spec: Json = template["template"]["spec"]
    return spec


def add_priority_class(cluster: Cluster, name: str, value: int) -> None:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    cluster.server.apply({**kind, "metadata": {"name": name}, "value": value})


@played(QUICK)
async def test_room_is_made_for_a_buffer_kept_while_it_is_there_and_given_back_after_it(cluster: Cluster) -> None:
    async with serving(cluster, nodes=0):
        add_template(cluster, "large", cpu="2")
        add_buffer(cluster, "b", podTemplateRef={"name": "large"}, replicas=4)
        await cluster.until(lambda: len(cluster.provider.nodes) == 2)
        ready = {
            READY: "AttributesSetSuccessfully",
            "LimitedByQuotas": "ResourceQuotasAllocated",
            "Provisioning": "FakePodsInjected",
        }
        assert await told(cluster, "b") == (ready, 4)
        await cluster.clock.sleep(200)
        assert len(cluster.provider.nodes) == 2, "spare, but not unneeded"
        await cluster.api.delete(resources.CAPACITY_BUFFERS, "b", "default")
        await cluster.until(lambda: not cluster.provider.nodes, 2000)


@played(SPARE)
async def test_a_buffer_gets_events_of_the_scale_up_for_its_pods_and_of_why_there_is_none(cluster: Cluster) -> None:
    cluster.writes_events = True
    async with serving(cluster, nodes=0):
        add_template(cluster, "large", cpu="2")
        add_template(cluster, "huge", cpu="200")
        add_buffer(cluster, "b", podTemplateRef={"name": "large"}, replicas=4)
        add_buffer(cluster, "h", podTemplateRef={"name": "huge"}, replicas=3)
        await cluster.until(lambda: len(cluster.provider.nodes) == 2)
        await cluster.clock.sleep(30)
        buffers = [item for item in await cluster.events() if item["involvedObject"]["kind"] == "CapacityBuffer"]
        assert {(entry["involvedObject"]["name"], entry["reason"], entry["message"]) for entry in buffers} == {
            ("b", "TriggeredScaleUp", "capacity buffer 4 fake pods triggered scale-up: [{a 0->2 (max: 10)}]"),
            ("h", "NotTriggerScaleUp", "capacity buffer 3 fake pods didn't trigger scale-up: 1 Insufficient cpu"),
        }
        assert {one["involvedObject"]["apiVersion"] for one in buffers} == {"autoscaling.x-k8s.io/v1beta1"}
        assert all(one["involvedObject"]["uid"] for one in buffers)


@played(SPARE)
async def test_a_buffer_follows_its_workload(cluster: Cluster) -> None:
    async with serving(cluster, nodes=0):
        cluster.add_pod("p", "1", labels={"a": "b"})
        scaled = {"status": {"replicas": 3}}
        await cluster.api.merge_patch(resources.REPLICA_SETS, "rs", scaled, "default", subresource="status")
        target = {"apiGroup": "apps", "kind": "ReplicaSet", "name": "rs"}
        add_buffer(cluster, "b", scalableRef=target, percentage=50)
        await cluster.clock.sleep(30)
        assert (await told(cluster, "b"))[1] == 2, "half of three, rounded up"


@played(SPARE)
async def test_of_a_job_its_template_counts_and_nobody_asks_for_a_scale_that_there_is_not(cluster: Cluster) -> None:
    async with serving(cluster, nodes=0):
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
        template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
        kind, metadata = {"apiVersion": "batch/v1", "kind": "Job"}, {"name": "job", "namespace": "default"}
        cluster.server.apply({**kind, "metadata": metadata, "spec": {"parallelism": 4, "template": template}})
        for name in ("job", "gone"):
            add_buffer(cluster, name, scalableRef={"apiGroup": "batch", "kind": "Job", "name": name}, percentage=50)
        await cluster.clock.sleep(30)
        assert (await told(cluster, "job"))[1] == 2
        assert "jobs have no scale" in message(await status(cluster, resources.CAPACITY_BUFFERS, "gone"), READY)
        assert [item for item in cluster.carrier.calls if item.endswith("/scale")] == []


@played(SPARE)
async def test_what_is_wrong_with_a_buffer_is_told(cluster: Cluster) -> None:
    async with serving(cluster, nodes=0):
        add_buffer(cluster, "missing", podTemplateRef={"name": "nowhere"}, replicas=1)
        add_buffer(cluster, "unsized", podTemplateRef={"name": "t"}, limits={"example.com/gpu": "1"})
        add_buffer(cluster, "foreign", podTemplateRef={"name": "t"}, replicas=1, provisioningStrategy="else")
        add_buffer(cluster, "widget", scalableRef={"apiGroup": "x.io", "kind": "Widget", "name": "w"}, replicas=1)
        await cluster.clock.sleep(30)
        for name in ("missing", "unsized", "widget"):
            assert (await told(cluster, name))[0][READY] == "error"
        assert await told(cluster, "foreign") == ({}, None)
        assert not cluster.provider.nodes


@played(SPARE)
async def test_no_room_is_kept_for_a_buffer_that_is_empty_or_not_ready_any_more(cluster: Cluster) -> None:
    async with serving(cluster, nodes=0):
        add_buffer(cluster, "empty", podTemplateRef={"name": "t"}, replicas=0)
        add_template(cluster, "large", cpu="2")
        add_buffer(cluster, "b", podTemplateRef={"name": "large"}, replicas=1)
        await cluster.clock.sleep(30)
        assert (await told(cluster, "empty"))[0]["Provisioning"] == "BufferIsEmpty"
        assert (await told(cluster, "b"))[0]["Provisioning"] == "FakePodsInjected"
        await cluster.api.delete(resources.POD_TEMPLATES, "large", "default")
        await cluster.clock.sleep(30)
        found = (await told(cluster, "b"))[0]
        assert (found[READY], found["Provisioning"]) == ("error", "NotReadyForProvisioning")


@played(SPARE)
async def test_a_template_that_only_the_status_of_a_buffer_names_and_that_is_gone_is_named(cluster: Cluster) -> None:
    """The buffer changes to the strategy of another controller, which takes its template and leaves its status."""
    async with serving(cluster, nodes=0):
        add_buffer(cluster, "b", podTemplateRef={"name": "t"}, replicas=1)
        await cluster.clock.sleep(30)
        found = await status(cluster, resources.CAPACITY_BUFFERS, "b")
        assert reasons(found)["Provisioning"] == "FakePodsInjected"
        own = found["podTemplateRef"]["name"]
        add_buffer(cluster, "b", podTemplateRef={"name": "t"}, replicas=1, provisioningStrategy="else")
        await cluster.clock.sleep(30)
        await cluster.api.delete(resources.POD_TEMPLATES, own, "default")
        await cluster.clock.sleep(30)
        found = await status(cluster, resources.CAPACITY_BUFFERS, "b")
        assert reasons(found)["Provisioning"] == "FailedToGetPodTemplate"
        assert message(found, "Provisioning").endswith(f'podtemplates "{own}" not found')


@played(SPARE)
async def test_the_api_server_completes_pods_of_a_template_and_none_is_created(cluster: Cluster) -> None:
    add_priority_class(cluster, "high", 1000)
    async with serving(cluster, nodes=0):
        add_template(cluster, "important", priorityClassName="high")
        add_buffer(cluster, "b", podTemplateRef={"name": "important"}, replicas=1)
        await cluster.clock.sleep(30)
        assert (await own_template(cluster, "b"))["priority"] == 1000
        assert not (await cluster.api.list(resources.PODS)).items
        asked = [
            request for request in cluster.carrier.sent if request.method == "POST" and request.path.endswith("/pods")
        ]
        assert [("dryRun", "All") in one.query for one in asked] == [True], "once, not in every round"
        await cluster.clock.sleep(buffer_templates.CACHE_S)
        asked = [one for one in cluster.carrier.sent if one.method == "POST" and one.path.endswith("/pods")]
        assert len(asked) == 2


@played(SPARE)
async def test_what_the_api_server_has_against_such_pods_is_told_until_it_has_nothing_any_more(
    cluster: Cluster,
) -> None:
    async with serving(cluster, nodes=0):
        add_template(cluster, "important", priorityClassName="high")
        add_buffer(cluster, "b", podTemplateRef={"name": "important"}, replicas=1)
        await cluster.clock.sleep(30)
        found = message(await status(cluster, resources.CAPACITY_BUFFERS, "b"), READY)
        assert found.startswith("Buffer not ready for provisioning: failed to create fake pod: ")
        assert "no PriorityClass with name high was found" in found
        add_priority_class(cluster, "high", 1000)
        await cluster.until(lambda: cluster.provider.nodes)


@played(ALONE)
async def test_without_a_dry_run_requests_follow_from_limits_and_the_api_server_is_not_asked(cluster: Cluster) -> None:
    container = {"name": "c", "image": "x", "resources": {"limits": {"cpu": "2"}}}
    async with serving(cluster, nodes=0):
        add_template(cluster, "limited", containers=[container])
        add_buffer(cluster, "b", podTemplateRef={"name": "limited"}, limits={"cpu": "5"})
        await cluster.clock.sleep(30)
        assert (await told(cluster, "b"))[1] == 2
        (found,) = (await own_template(cluster, "b"))["containers"]
        assert found["resources"]["requests"] == {"cpu": "2"}
        assert not [item for item in cluster.carrier.calls if item == "POST /api/v1/namespaces/default/pods"]


@played(ALONE)
async def test_without_a_dry_run_requests_of_the_whole_pod_follow_from_its_limits(cluster: Cluster) -> None:
    """But for what its containers request: that is what the API server would take."""
    limits = {"limits": {"cpu": "3", "memory": "1Gi", "example.com/gpu": "1"}}
    container = {"name": "c", "image": "x", "resources": {"requests": {"memory": "64Mi"}}}
    async with serving(cluster, nodes=0):
        add_template(cluster, "limited", containers=[container], resources=limits)
        add_buffer(cluster, "b", podTemplateRef={"name": "limited"}, limits={"cpu": "10"})
        await cluster.clock.sleep(30)
        assert (await told(cluster, "b"))[1] == 3
        assert (await own_template(cluster, "b"))["resources"]["requests"] == {"cpu": "3"}


def amounts(**resources: str) -> Json:
    return {name.replace("_", "-"): amount for name, amount in resources.items()}


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        ({"containers": [{}]}, {}),
        ({"containers": [{"resources": {"limits": amounts(cpu="1")}}]}, amounts(cpu="1")),
        (
            {"containers": [{}], "initContainers": [{"resources": {"limits": amounts(cpu="1", memory="1Gi")}}]},
            amounts(cpu="1", memory="1Gi"),
        ),
        (
            {"containers": [{"resources": {"limits": amounts(cpu="1"), "requests": amounts(cpu="500m")}}]},
            amounts(cpu="500m"),
        ),
        (
            {
                "containers": [
                    {"resources": {"limits": amounts(cpu="1", memory="1Gi"), "requests": amounts(cpu="500m")}}
                ]
            },
            amounts(cpu="500m", memory="1Gi"),
        ),
        ({"containers": [{}], "resources": {"limits": amounts(cpu="1")}}, amounts(cpu="1")),
        ({"containers": [{}], "resources": {"requests": amounts(cpu="100m")}}, amounts(cpu="100m")),
        (
            {
                "containers": [{"resources": {"requests": {"hugepages-2Mi": "1Gi"}}}],
                "resources": {"limits": amounts(cpu="1")},
            },
            {"cpu": "1", "hugepages-2Mi": "1Gi"},
        ),
        (
            {
                "containers": [{"resources": {"requests": amounts(cpu="100m")}}],
                "resources": {"limits": amounts(cpu="1")},
            },
            amounts(cpu="100m"),
        ),
    ],
)
def test_without_a_dry_run_a_template_requests_what_the_api_server_would_have_it_request(
    spec: Json, requests: Json
) -> None:
    """The cases of Cluster Autoscaler's tests, and last one in which it takes the pod-level limit of CPU."""
    completed = buffer_templates.default_template({"spec": spec})["spec"]
    found = buffer_templates.read_sample(completed).requests
    assert found == {name: quantity.parse_quantity(amount) for name, amount in requests.items()}


@pytest.mark.parametrize(
    "what", ["no such template", capacity_buffer.ResolvedTemplate(capacity_buffer.SamplePod({}), 1)]
)
def test_conditions_of_others_stay_whatever_becomes_of_a_buffer(
    what: capacity_buffer.ResolvedTemplate | str,
) -> None:
    foreign = Condition("example.com/Audited", "True", "Yes", "by hand", 1.0)
    status = capacity_buffer.BufferStatus(conditions=(foreign,))
    buffer = capacity_buffer.CapacityBuffer("ns", "b", template="t", replicas=1, status=status)
    after = capacity_buffer.reconcile_buffers([buffer], {buffer.key: what}, [], 2.0).statuses[buffer.key]
    injected = capacity_buffer.inject_buffer(replace(buffer, status=after), lambda name: 1, 3.0).status
    assert foreign in after.conditions
    assert foreign in injected.conditions
    assert len(injected.conditions) > 1
