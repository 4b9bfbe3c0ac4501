"""What Cluster API's own webhooks and controllers make of scaling and applying: facts of the real thing alone.

The embedded server has neither; whoever plays Cluster API on it has to do the same.
"""

import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from testbed.bed import Bed
from tests.contracts import objects
from tests.contracts.api_client import NAMESPACES, NODES, Api, Json, Kind, Reply, eventually
from windlass import clock
from windlass.kube import rest_config

DEPLOYMENTS = Kind("cluster.x-k8s.io", "v1beta2", "machinedeployments", "MachineDeployment")
OLD_DEPLOYMENTS = Kind("cluster.x-k8s.io", "v1beta1", "machinedeployments", "MachineDeployment")
MIN = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
MAX = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"


@pytest_asyncio.fixture
async def api(control_plane: Bed) -> AsyncIterator[Api]:
    async with rest_config.load_rest_config(clock.RealClock(), str(control_plane.kubeconfig)).connect() as carrier:
        made = Api(carrier, f"capi-{secrets.token_hex(4)}", True)
        (await made.create(NAMESPACES, {"metadata": {"name": made.namespace}})).expect(201)
        yield made
        for path in made.made:
            await made.call("DELETE", path)


def _annotations(limits: tuple[int, int] | None) -> Json:
    return {MIN: str(limits[0]), MAX: str(limits[1])} if limits else {}


def _deployment(replicas: int | None = None, limits: tuple[int, int] | None = None, **spec: Any) -> Json:
    """A MachineDeployment of a cluster that is not there: nothing acts on it."""
    machine = {
        "clusterName": "nowhere",
        "bootstrap": {"dataSecretName": "none"},
        "infrastructureRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io",
            "kind": "FakeMachineTemplate",
            "name": "t",
        },
    }
    wanted: Json = {"clusterName": "nowhere", "template": {"spec": machine}, **spec}
    if replicas is not None:
        wanted["replicas"] = replicas
    metadata: Json = {"name": "md"}
    if limits:
        metadata["annotations"] = _annotations(limits)
    return {"metadata": metadata, "spec": wanted}


def _owners(reply: Reply) -> list[str]:
    return [e["manager"] for e in reply.managed if "f:replicas" in e["fieldsV1"].get("f:spec", {})]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [(None, 1), ((2, 9), 3), ((5, 9), 5), ((1, 2), 2), ((0, 3), 3)],
)
async def test_a_sole_applier_that_omits_replicas_gets_the_webhooks(
    api: Api, limits: tuple[int, int] | None, expected: int
) -> None:
    (await api.apply(DEPLOYMENTS, _deployment(3, limits), "a")).expect(201)
    reply = (await api.apply(DEPLOYMENTS, _deployment(None, limits), "a")).expect(200)
    assert reply.obj["spec"]["replicas"] == expected
    assert _owners(reply) == []


@pytest.mark.parametrize(("static", "expected"), [(6, 6), (12, 9), (1, 2)])
async def test_one_apply_may_add_limits_and_omit_replicas(api: Api, static: int, expected: int) -> None:
    (await api.apply(DEPLOYMENTS, _deployment(static), "a")).expect(201)
    reply = (await api.apply(DEPLOYMENTS, _deployment(None, (2, 9)), "a")).expect(200)
    assert reply.obj["spec"]["replicas"] == expected
    assert _owners(reply) == []


async def test_omitting_first_and_annotating_later_gives_one(api: Api) -> None:
    (await api.apply(DEPLOYMENTS, _deployment(6), "a")).expect(201)
    (await api.apply(DEPLOYMENTS, _deployment(), "a")).expect(200)
    reply = (await api.apply(DEPLOYMENTS, _deployment(None, (2, 9)), "a")).expect(200)
    assert reply.obj["spec"]["replicas"] == 1


async def test_another_owner_keeps_replicas_beyond_the_limits(api: Api) -> None:
    (await api.apply(DEPLOYMENTS, _deployment(6), "a")).expect(201)
    (await api.apply(DEPLOYMENTS, {"metadata": {"name": "md"}, "spec": {"replicas": 6}}, "b")).expect(200)
    reply = (await api.apply(DEPLOYMENTS, _deployment(None, (2, 4)), "a")).expect(200)
    assert reply.obj["spec"]["replicas"] == 6
    assert _owners(reply) == ["b"]


async def test_an_applier_that_never_owned_replicas_does_not_clamp_them(api: Api) -> None:
    (await api.apply(DEPLOYMENTS, _deployment(6), "a")).expect(201)
    limits = {"metadata": {"name": "md", "annotations": _annotations((2, 4))}}
    reply = (await api.apply(DEPLOYMENTS, limits, "b")).expect(200)
    assert reply.obj["spec"]["replicas"] == 6


@pytest.mark.parametrize(("limits", "expected"), [(None, 1), ((3, 7), 3), ((0, 7), 0)])
async def test_a_new_one_without_replicas_gets_its_minimum_or_one(
    api: Api, limits: tuple[int, int] | None, expected: int
) -> None:
    reply = (await api.create(DEPLOYMENTS, _deployment(None, limits))).expect(201)
    assert reply.obj["spec"]["replicas"] == expected
    # the webhook set it, and so it is nobody's: scaling never gets an owner
    assert _owners(reply) == []
    (await api.scale(DEPLOYMENTS, "md", 5)).expect(200)
    found = await api.get(DEPLOYMENTS, "md")
    assert _owners(found) == []
    (await api.apply(DEPLOYMENTS, {"metadata": {"name": "md"}, "spec": {"replicas": 2}}, "b")).expect(200)


async def test_minimum_and_maximum_are_not_enforced_on_the_scale(api: Api) -> None:
    (await api.create(DEPLOYMENTS, _deployment(3, (2, 4)))).expect(201)
    assert (await api.scale(DEPLOYMENTS, "md", 9)).expect(200).obj["spec"] == {"replicas": 9}


async def test_null_replicas_count_as_unset_and_stay_owned(api: Api) -> None:
    (await api.apply(DEPLOYMENTS, _deployment(3, (2, 9)), "a")).expect(201)
    applied = _deployment(None, (2, 9))
    applied["spec"]["replicas"] = None
    reply = (await api.apply(DEPLOYMENTS, applied, "a")).expect(200)
    assert _owners(reply) == ["a"]


async def test_an_empty_limit_breaks_the_webhook(api: Api) -> None:
    (await api.apply(DEPLOYMENTS, _deployment(3, (2, 9)), "a")).expect(201)
    applied = _deployment(None, (2, 9))
    applied["metadata"]["annotations"][MIN] = None
    reply = (await api.apply(DEPLOYMENTS, applied, "a")).expect(403)
    assert "could not parse" in reply.message


async def test_an_apply_of_annotations_alone_by_the_owner_of_all_fails_whole(api: Api) -> None:
    (await api.apply(DEPLOYMENTS, _deployment(3), "a")).expect(201)
    only = {"metadata": {"name": "md", "annotations": {"x": "y"}}}
    reply = (await api.apply(DEPLOYMENTS, only, "a")).expect(422)
    assert "Required value" in reply.message
    assert (await api.get(DEPLOYMENTS, "md")).obj["spec"]["replicas"] == 3


async def test_leaving_out_the_templates_metadata_takes_cluster_apis_labels_along(api: Api) -> None:
    whole = _deployment(3)
    whole["spec"]["template"]["metadata"] = {"labels": {"x": "y"}}
    (await api.apply(DEPLOYMENTS, whole, "a")).expect(201)
    reply = (await api.apply(DEPLOYMENTS, _deployment(3), "a")).expect(422)
    assert "must match spec.selector" in reply.message
    kept = _deployment(3)
    kept["spec"]["template"]["metadata"] = {"labels": {}}
    (await api.apply(DEPLOYMENTS, kept, "a")).expect(200)


async def test_one_scale_entry_through_two_versions(api: Api) -> None:
    (await api.apply(DEPLOYMENTS, _deployment(3), "a")).expect(201)
    scaler = api.acting_as("scaler")
    (await scaler.scale(OLD_DEPLOYMENTS, "md", 4)).expect(200)
    (await scaler.scale(DEPLOYMENTS, "md", 5)).expect(200)
    [entry] = [e for e in (await api.get(DEPLOYMENTS, "md")).managed if e["manager"] == "scaler"]
    assert entry["apiVersion"] == DEPLOYMENTS.api_version


async def test_a_paused_one_is_scaled_like_any_other(api: Api) -> None:
    made = (await api.create(DEPLOYMENTS, _deployment(3, paused=True))).expect(201)
    (await api.scale(DEPLOYMENTS, "md", 5)).expect(200)
    reply = await api.get(DEPLOYMENTS, "md")
    assert reply.metadata["generation"] == made.metadata["generation"] + 1
    assert reply.obj["spec"]["replicas"] == 5


async def test_a_cordoned_node_is_tainted_by_the_controller_manager(api: Api) -> None:
    name = api.name("node")
    (await api.create(NODES, objects.node(name, unschedulable=True))).expect(201)

    async def is_tainted() -> bool:
        taints = (await api.get(NODES, name)).obj["spec"].get("taints") or ()
        return any(taint["key"] == "node.kubernetes.io/unschedulable" for taint in taints)

    await eventually(is_tainted)
