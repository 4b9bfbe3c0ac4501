"""The ClusterAutoscaler on the embedded server, in virtual time."""

import contextlib
from typing import Any

from tests.controllers.openshift.faulty_transports import Refusing
from tests.controllers.openshift.openshift_cluster import Cluster, in_virtual_time
from windlass.controllers import controller_interface, controller_runtime
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.cluster_autoscaler import controller, model
from windlass.controllers.openshift.cluster_autoscaler.model import ClusterAutoscalerSettings
from windlass.kube import errors, request_builders

Json = dict[str, Any]

NS = "openshift-machine-api"
NAME = "cluster-autoscaler-default"
VERSION = "4.20.0"
SETTINGS = ClusterAutoscalerSettings(release_version=VERSION)
WELL = [{"type": "Available", "status": "True"}, {"type": "Degraded", "status": "False"}]


def make(site: controller_runtime.ControllerContext) -> controller_interface.Controller:
    return controller.new_controller(site, SETTINGS)


async def put(scene: Cluster, spec: Json, name: str = "default") -> None:
    try:
        found = await scene.api.get(model.CLUSTER_AUTOSCALERS, name)
        await scene.api.update(model.CLUSTER_AUTOSCALERS, {**found, "spec": spec})
    except errors.NotFound:
        await scene.api.create(model.CLUSTER_AUTOSCALERS, {"metadata": {"name": name}, "spec": spec})
    await scene.settle()


async def deployment(scene: Cluster) -> Json:
    return await scene.api.get(model.DEPLOYMENT, NAME, NS)


async def container(scene: Cluster) -> Json:
    found: Json = (await deployment(scene))["spec"]["template"]["spec"]["containers"][0]
    return found


async def print_line(scene: Cluster, operator: str, conditions: list[Json]) -> None:
    with contextlib.suppress(errors.AlreadyExists):
        await scene.api.create(model.CLUSTER_OPERATORS, {"metadata": {"name": operator}})
    status = {"status": {"conditions": conditions}}
    await scene.api.merge_patch(model.CLUSTER_OPERATORS, operator, status, subresource="status")
    await scene.settle()


async def roll_out(scene: Cluster) -> None:
    generation = (await deployment(scene))["metadata"]["generation"]
    counts = {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "observedGeneration": generation}
    await scene.api.merge_patch(model.DEPLOYMENT, NAME, {"status": counts}, NS, subresource="status")
    await scene.settle()


async def operator(scene: Cluster, kind: str) -> tuple[str, str, str]:
    found = await scene.condition(model.CLUSTER_OPERATORS, model.AUTOSCALER, kind)
    return found["status"], found.get("reason", ""), found.get("message", "")


@in_virtual_time
async def test_a_cluster_autoscaler_is_run_with_all_that_goes_with_it(scene: Cluster) -> None:
    async with scene.controlled(make):
        await put(scene, {"resourceLimits": {"maxNodesTotal": 24}})
        found = await container(scene)
        assert found["command"] == ["windlass", "autoscaler"]
        assert "--cloud-provider=clusterapi" in found["args"]
        assert "--node-group-auto-discovery=clusterapi:namespace=openshift-cluster-api" in found["args"]
        assert "--max-nodes-total=24" in found["args"]
        assert {item["name"] for item in found["env"]} == {"CAPI_SCALE_ZERO_DEFAULT_ARCH", "CAPI_MIRRORED_NAMESPACE"}
        for resource, count in (
            (model.SERVICE, 1),
            (model.SERVICE_MONITOR, 1),
            (model.PROMETHEUS_RULE, 1),
            (model.NETWORK_POLICY, 5),
            (model.DEPLOYMENT, 1),
        ):
            made = (await scene.api.list(resource, request_builders.ListOptions(NS))).items
            assert len(made) == count
            assert all(entry["metadata"]["ownerReferences"][0]["name"] == "default" for entry in made)
        rule = await scene.api.get(model.PROMETHEUS_RULE, NAME, NS)
        alerts = [(each["alert"], each["for"]) for each in rule["spec"]["groups"][0]["rules"]]
        assert alerts == [
            ("ClusterAutoscalerUnschedulablePods", "20m"),
            ("ClusterAutoscalerNotSafeToScale", "15m"),
            ("ClusterAutoscalerUnableToScaleCPULimitReached", "15m"),
            ("ClusterAutoscalerUnableToScaleMemoryLimitReached", "15m"),
        ]
        (event,) = await scene.events("SuccessfulCreate")
        assert event["message"] == f"Created ClusterAutoscaler deployment: {NS}/{NAME}"
        ready = await scene.condition(model.CLUSTER_AUTOSCALERS, "default", "Ready")
        assert (ready["status"], ready["reason"]) == ("True", "ClusterAutoscalerReady")


@in_virtual_time
async def test_only_a_real_difference_is_written(scene: Cluster) -> None:
    """Upstream writes at every pass, and says so each time."""
    await print_line(scene, "machine-api", WELL)
    async with scene.controlled(make):
        await put(scene, {"logVerbosity": 4})
        await roll_out(scene)
        assert await scene.is_quiet()
        assert await scene.events("SuccessfulUpdate") == []
        await put(scene, {"logVerbosity": 5})
        assert "--v=5" in (await container(scene))["args"]
        assert len(await scene.events("SuccessfulUpdate")) == 1
        await roll_out(scene)
        assert await scene.is_quiet()
    async with scene.controlled(make):  # nor does another leader write anything
        await scene.settle(60.0)
        assert scene.written.writes == []
        assert len(await scene.events("SuccessfulUpdate")) == 1


@in_virtual_time
async def test_what_someone_changes_or_deletes_is_put_right(scene: Cluster) -> None:
    async with scene.controlled(make):
        await put(scene, {})
        await scene.api.merge_patch(model.DEPLOYMENT, NAME, {"spec": {"replicas": 0}}, NS)
        await scene.api.delete(model.NETWORK_POLICY, f"{NAME}-default-deny", NS)
        await scene.api.merge_patch(model.SERVICE, NAME, {"spec": {"ports": [{"port": 1, "name": "other"}]}}, NS)
        await scene.settle()
        assert (await deployment(scene))["spec"]["replicas"] == 1
        assert await scene.api.get(model.NETWORK_POLICY, f"{NAME}-default-deny", NS)
        assert (await scene.api.get(model.SERVICE, NAME, NS))["spec"]["ports"][0]["port"] == 8085


@in_virtual_time
async def test_what_a_former_operator_left_in_the_deployment_goes(scene: Cluster) -> None:
    """Its environment would turn Cluster API off."""
    labels = {"cluster-autoscaler": "default", "k8s-app": "cluster-autoscaler"}
    environment = [{"name": "OPENSHIFT_CLUSTERAPI_DISABLE", "value": "true"}]
    old = {"name": "cluster-autoscaler", "image": "old", "command": ["cluster-autoscaler"], "env": environment}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [old], "nodeSelector": {"beta": ""}}}
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    await scene.api.create(model.DEPLOYMENT, {"metadata": {"name": NAME}, "spec": spec}, NS)
    async with scene.controlled(make):
        await put(scene, {})
        assert "OPENSHIFT_CLUSTERAPI_DISABLE" not in {item["name"] for item in (await container(scene))["env"]}
        found = await deployment(scene)
        assert "beta" not in found["spec"]["template"]["spec"]["nodeSelector"]
        assert found["metadata"]["ownerReferences"][0]["kind"] == "ClusterAutoscaler"


@in_virtual_time
async def test_without_the_gate_the_autoscaler_knows_machine_api_alone_until_it_is_on(scene: Cluster) -> None:
    await scene.turn(on=False)
    async with scene.controlled(make):
        await put(scene, {})
        for is_on in (False, True, False):
            await scene.turn(on=is_on)
            found = await container(scene)
            environment = {item["name"]: item["value"] for item in found["env"]}
            assert (environment.get("OPENSHIFT_CLUSTERAPI_DISABLE") == "true") is not is_on
            assert (environment.get("CAPI_GROUP") == "machine.openshift.io") is not is_on
            assert (environment.get("CAPI_NAMESPACE") == "openshift-machine-api") is not is_on
            assert any("openshift-cluster-api" in flag for flag in found["args"]) is is_on


@in_virtual_time
async def test_a_bad_one_is_said_once_and_leaves_what_is_there(scene: Cluster) -> None:
    await scene.loosen("clusterautoscalers.autoscaling.openshift.io")
    await print_line(scene, "machine-api", WELL)
    async with scene.controlled(make):
        await put(scene, {"logVerbosity": 4})
        await roll_out(scene)
        before = await deployment(scene)
        for limits, told in (
            ({"cores": {"min": 8, "max": 2}}, "ResourceLimits.Cores: Max must be greater than or equal to Min"),
            ({"maxNodesTotal": -1}, "ResourceLimits.MaxNodesTotal must be greater than 0"),
        ):
            await put(scene, {"resourceLimits": limits})
            assert await deployment(scene) == before
            ready = await scene.condition(model.CLUSTER_AUTOSCALERS, "default", "Ready")
            assert (ready["status"], ready["reason"], ready["message"]) == ("False", "ClusterAutoscalerInvalid", told)
            found = await scene.events("FailedValidation")
            assert found[-1]["message"] == f"ClusterAutoscaler validation error: {told}"
        assert await scene.is_quiet()
        assert len(await scene.events("FailedValidation")) == 2


@in_virtual_time
async def test_one_of_another_name_is_told_that_it_does_not_count(scene: Cluster) -> None:
    async with scene.controlled(make):
        await put(scene, {}, "mine")
        ready = await scene.condition(model.CLUSTER_AUTOSCALERS, "mine", "Ready")
        assert ready["message"] == 'Name "mine" is invalid, only "default" is allowed'
        assert (await scene.api.list(model.DEPLOYMENT, request_builders.ListOptions(NS))).items == []


@in_virtual_time
async def test_one_that_is_being_deleted_takes_the_deployment_along_and_makes_none(scene: Cluster) -> None:
    async with scene.controlled(make):
        await put(scene, {})
        held = {"metadata": {"finalizers": ["example.com/hold"]}}
        await scene.api.merge_patch(model.CLUSTER_AUTOSCALERS, "default", held)
        await scene.api.delete(model.CLUSTER_AUTOSCALERS, "default")
        await scene.settle(60.0)
        assert (await scene.api.list(model.DEPLOYMENT, request_builders.ListOptions(NS))).items == []


@in_virtual_time
async def test_what_cannot_be_made_is_said_and_tried_again(scene: Cluster) -> None:
    refusing = Refusing(scene.carrier, "/networkpolicies", method="POST")
    async with scene.controlled(make, between=lambda _: refusing):
        await put(scene, {})
        ready = await scene.condition(model.CLUSTER_AUTOSCALERS, "default", "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "ClusterAutoscalerFailed")
        assert "networkpolicies" in (await scene.events("FailedCreate"))[0]["message"]
        refusing.is_on = False
        await scene.settle(600.0)
        assert (await deployment(scene))["metadata"]["name"] == NAME


@in_virtual_time
async def test_a_deployment_that_may_not_be_changed_is_told_and_changed_later(scene: Cluster) -> None:
    refusing = Refusing(scene.carrier, f"/deployments/{NAME}", method="PUT")
    async with scene.controlled(make, between=lambda _: refusing):
        await put(scene, {"logVerbosity": 4})
        await put(scene, {"logVerbosity": 5})
        (event,) = await scene.events("FailedUpdate")
        assert event["message"].startswith("Error updating cluster-autoscaler deployment: ")
        refusing.is_on = False
        await scene.settle(600.0)
        assert "--v=5" in (await container(scene))["args"]


@in_virtual_time
async def test_deployments_that_can_no_longer_be_read_are_told_and_nothing_is_made_anew(scene: Cluster) -> None:
    refusing = Refusing(scene.carrier, "/deployments", method="GET", is_on=False)
    async with scene.controlled(make, between=lambda _: refusing):
        await put(scene, {})
        refusing.is_on = True
        await scene.settle(900.0)  # until the watch is begun anew
        await put(scene, {"logVerbosity": 5})
        told = [event["message"] for event in await scene.events("FailedGetDeployment")]
        assert told[0].startswith("Error getting cluster-autoscaler deployment: deployments: ")
        ready = await scene.condition(model.CLUSTER_AUTOSCALERS, "default", "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "ClusterAutoscalerFailed")
        refusing.is_on = False
        await scene.settle(900.0)
        assert "--v=5" in (await container(scene))["args"]


@in_virtual_time
async def test_refusals_of_the_same_read_are_one_event_whose_count_goes_up(scene: Cluster) -> None:
    """Each watch that is refused has another timeoutSeconds and resourceVersion; the message has neither."""
    refusing = Refusing(scene.carrier, "/deployments", method="GET", is_on=False)
    async with scene.controlled(make, between=lambda _: refusing):
        await put(scene, {})
        for count, verbosity in ((1, 5), (2, 6)):
            refusing.is_on = True
            await scene.settle(900.0)  # until the watch is begun anew
            await put(scene, {"logVerbosity": verbosity})
            (event,) = await scene.events("FailedGetDeployment")
            assert event["count"] == count
            assert await scene.is_quiet(1800.0), "neither the event nor the condition is written again"
            refusing.is_on = False
            await scene.settle(900.0)
            assert f"--v={verbosity}" in (await container(scene))["args"]
        assert event["message"] == (
            "Error getting cluster-autoscaler deployment: deployments: "
            f"GET /apis/apps/v1/namespaces/{NS}/deployments?watch=true: 403 Forbidden: denied by a policy"
        )


# What the operator says of itself


@in_virtual_time
async def test_the_operator_says_how_it_fares(scene: Cluster) -> None:
    await print_line(scene, "machine-api", WELL)
    async with scene.controlled(make):
        assert await operator(scene, "Available") == ("True", "AsExpected", f"at version {VERSION}")
        await put(scene, {})
        assert await operator(scene, "Progressing") == ("True", "SyncingResources", f"updating to {VERSION}")
        await roll_out(scene)
        assert await operator(scene, "Progressing") == ("False", "", "")
        assert await operator(scene, "Upgradeable") == ("True", "", "")
        found = await scene.api.get(model.CLUSTER_OPERATORS, model.AUTOSCALER)
        assert found["status"]["versions"] == [{"name": "operator", "version": VERSION}]
        assert await scene.is_quiet()


@in_virtual_time
async def test_it_is_degraded_only_after_a_while_and_recovers_at_once(scene: Cluster) -> None:
    bad = [{"type": "Available", "status": "True"}, {"type": "Degraded", "status": "True"}]
    await print_line(scene, "machine-api", bad)
    async with scene.controlled(make):
        assert (await operator(scene, "Available"))[2] == "available, but observed potential degradations."
        for _ in range(5):  # changes in between do not make it worse
            await print_line(scene, "machine-api", [*bad, {"type": "Progressing", "status": "True"}])
            await print_line(scene, "machine-api", bad)
            if (await operator(scene, "Degraded"))[0] == "True":
                break
        await scene.settle(60.0)
        assert await operator(scene, "Degraded") == ("True", "MissingDependency", "machine-api not ready")
        await print_line(scene, "machine-api", WELL)
        assert (await operator(scene, "Degraded"))[0] == "False"


@in_virtual_time
async def test_related_objects_are_known_from_the_first_report_on_and_follow_targets(scene: Cluster) -> None:
    """Upstream's first report has none: its cache has not begun."""
    await print_line(scene, "machine-api", WELL)
    await scene.autoscale("one", "set", "cluster.x-k8s.io/v1beta1")

    async def related() -> set[tuple[str, str, str]]:
        found = await scene.api.get(model.CLUSTER_OPERATORS, model.AUTOSCALER)
        listed = found["status"]["relatedObjects"]
        return {(item["group"], item.get("namespace", ""), item["name"]) for item in listed}

    async with scene.controlled(make):
        assert ("cluster.x-k8s.io", "openshift-cluster-api", "set") in await related()
        await scene.autoscale("two", "other")
        assert ("machine.openshift.io", NS, "other") in await related()
        await scene.stop_autoscaling("two")
        assert ("machine.openshift.io", NS, "other") not in await related()


@in_virtual_time
async def test_a_new_minor_version_shows_as_progress_once(scene: Cluster) -> None:
    await print_line(scene, "machine-api", WELL)
    async with scene.controlled(make):
        await scene.settle()
    newer = ClusterAutoscalerSettings(release_version="4.21.0")
    async with scene.controlled(lambda site: controller.new_controller(site, newer)):
        await scene.settle(60.0)
        assert await operator(scene, "Available") == ("True", "AsExpected", "at version 4.21.0")
        assert (await operator(scene, "Progressing"))[0] == "False"
        patched = [
            write for write in scene.written.writes if write.endswith("/clusteroperators/cluster-autoscaler/status")
        ]
        assert len(patched) == 2, "one says that it is upgrading, the other that it is there"


@in_virtual_time
async def test_a_version_that_is_none_makes_it_degraded(scene: Cluster) -> None:
    await print_line(scene, "machine-api", WELL)
    odd = ClusterAutoscalerSettings(release_version="latest")
    async with scene.controlled(lambda site: controller.new_controller(site, odd)):
        await scene.settle(120.0)
        status, reason, message = await operator(scene, "Degraded")
        assert (status, reason) == ("True", "UnableToCheckAutoscalers")
        assert 'failed to parse new version "latest"' in message


async def upgrade(scene: Cluster, version: str) -> None:
    """The cluster version operator is told to move to a version."""
    resource, name = machine_apis.CLUSTER_VERSIONS, machine_apis.CLUSTER_VERSION_SINGLETON
    with contextlib.suppress(errors.AlreadyExists):
        await scene.api.create(resource, {"metadata": {"name": name}})
    status = {"status": {"desired": {"version": version}}}
    await scene.api.merge_patch(resource, name, status, subresource="status")
    await scene.settle(30.0)


@in_virtual_time
async def test_without_a_version_of_its_own_it_reports_the_clusters_and_follows_upgrades(scene: Cluster) -> None:
    """The cluster version operator waits for the new version in every ClusterOperator before it goes on."""
    await print_line(scene, "machine-api", WELL)
    await scene.turn(on=True, version="4.21.3")
    await upgrade(scene, "4.20.7")
    async with scene.controlled(lambda site: controller.new_controller(site, ClusterAutoscalerSettings())):
        await scene.settle(30.0)
        assert (await operator(scene, "Available"))[2] == "at version 4.20.7"
        await put(scene, {})
        await roll_out(scene)
        assert (await deployment(scene))["metadata"]["annotations"][model.VERSION_ANNOTATION] == "4.20.7"
        assert not any("auto-discovery" in arg for arg in await reported_args(scene)), "no gates for this version"
        await upgrade(scene, "4.21.3")
        await roll_out(scene)
        await scene.settle(60.0)
        assert (await operator(scene, "Available"))[2] == "at version 4.21.3"
        assert (await deployment(scene))["metadata"]["annotations"][model.VERSION_ANNOTATION] == "4.21.3"
        assert any("auto-discovery" in arg for arg in await reported_args(scene)), "its gates count"
        assert await scene.is_quiet()


async def reported_args(scene: Cluster) -> list[str]:
    return list((await container(scene))["args"])
