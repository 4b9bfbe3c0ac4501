"""What a pool was given and cannot use: said in a condition and an event, and the other pools go on."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.controllers.machine_pool import management_cluster
from tests.controllers.machine_pool.management_cluster import Stage, World, conditions
from tests.controllers.machine_pool.test_controller import in_virtual_time, old
from tests.controllers.openshift.faulty_transports import Refusing
from windlass.kube import errors, kubeconfig, transport


async def add_good_pool(stage: Stage, cluster: str = "work") -> None:
    await stage.add_nodes("good-0")
    await stage.add_infrastructure("good", ["test:///good-0"])
    await stage.add_pool("good", 1, cluster=cluster)


async def check(scene: World, name: str, reason: str, *words: str) -> dict[str, Any]:
    """The pool says what is wrong, in a condition and in an event; the good one runs."""
    pool = await scene.pool(name)
    said = conditions(pool)["InputsValid"]
    assert (said["status"], said["reason"]) == ("False", reason)
    told = [event["message"] for event in await scene.events(name) if event["reason"] == reason]
    assert told
    for word in words:
        assert word in said["message"]
        assert word in told[0]
    good = await scene.pool("good")
    assert good["status"]["phase"] == "Running"
    assert "InputsValid" not in conditions(good)
    return pool


@in_virtual_time
async def test_a_missing_definition_is_named_and_mended_by_itself(scene: World, stage: Stage) -> None:
    await stage.set(without=("OldPool",))
    await add_good_pool(stage)
    await stage.add_pool("bad", 0, kind="OldPool")
    async with scene.controlled():
        pool = await check(scene, "bad", "DefinitionMissing", f"oldpools.{management_cluster.INFRASTRUCTURE}")
        assert conditions(pool)["InfrastructureReady"]["reason"] == "IncorrectExternalRef"
        assert "failureReason" not in old(pool)
        labels = {"cluster.x-k8s.io/v1beta1": "v1beta1"}
        await scene.apply(
            management_cluster.definition(management_cluster.INFRASTRUCTURE, "OldPool", "v1beta1", labels)
        )
        await scene.settle(15.0)
        await stage.add_infrastructure("bad", [], kind="OldPool")
        await scene.settle()
        pool = await scene.pool("bad")
        assert pool["status"]["phase"] == "Running"
        assert "InputsValid" not in conditions(pool)


@in_virtual_time
async def test_a_definition_without_a_contract_is_named(scene: World, stage: Stage) -> None:
    await stage.set(without=("OldPool",))
    await add_good_pool(stage)
    await scene.apply(management_cluster.definition(management_cluster.INFRASTRUCTURE, "OldPool", "v1beta1"))
    await stage.add_pool("bad", 0, kind="OldPool")
    async with scene.controlled():
        await check(scene, "bad", "ContractUnknown", "oldpools", "cluster.x-k8s.io/v1beta2")


@in_virtual_time
async def test_a_missing_kubeconfig_is_named_and_used_once_it_is_there(scene: World, stage: Stage) -> None:
    await stage.set()
    await add_good_pool(stage)
    await stage.add_cluster("bare")
    await scene.delete("Secret", "bare-kubeconfig")
    await stage.add_infrastructure("bad", [])
    await stage.add_pool("bad", 0, cluster="bare")
    async with scene.controlled():
        await check(scene, "bad", "KubeconfigMissing", "default/bare-kubeconfig")
        await scene.apply(
            management_cluster.secret("bare-kubeconfig", management_cluster.kubeconfig("https://work.example:6443"))
        )
        await scene.settle(15.0)
        assert (await scene.pool("bad"))["status"]["phase"] == "Running"


@in_virtual_time
async def test_a_kubeconfig_that_may_not_be_read_is_named_and_used_once_it_may(scene: World, stage: Stage) -> None:
    await stage.set()
    await add_good_pool(stage)
    await stage.add_cluster("secret", management_cluster.kubeconfig("https://work.example:6443"))
    await stage.add_infrastructure("bad", [])
    await stage.add_pool("bad", 0, cluster="secret")
    refusing = Refusing(scene.written, "/secrets/secret-kubeconfig", method="GET")
    async with scene.controlled(between=lambda carrier: refusing):
        await check(scene, "bad", "KubeconfigUnreadable", "default/secret-kubeconfig", "403 Forbidden")
        refusing.is_on = False
        await scene.settle(15.0)
        assert (await scene.pool("bad"))["status"]["phase"] == "Running"


BAD_KUBECONFIGS = {
    "no YAML": b"{",
    "no text": b"\xff\xfe",
    "a list": b"[1, 2]",
    "no context": b"apiVersion: v1\nkind: Config\n",
    "an unknown cluster": b"current-context: a\ncontexts: [{name: a, context: {cluster: nowhere}}]\n",
    "no address": b"current-context: a\ncontexts: [{name: a, context: {cluster: c}}]\n"
    b"clusters: [{name: c, cluster: {server: nowhere}}]\n",
    "empty": b"",
}


@pytest.mark.parametrize("name", BAD_KUBECONFIGS)
def test_a_malformed_kubeconfig_is_named(name: str) -> None:
    @in_virtual_time
    async def play(scene: World, stage: Stage) -> None:
        await stage.set()
        await add_good_pool(stage)
        await stage.add_cluster("broken", BAD_KUBECONFIGS[name])
        await stage.add_infrastructure("bad", [])
        await stage.add_pool("bad", 0, cluster="broken")
        async with scene.controlled():
            await check(scene, "bad", "KubeconfigInvalid", "default/broken-kubeconfig")

    play()


@pytest.mark.parametrize(
    "user", ["{exec: {command: sh, apiVersion: client.authentication.k8s.io/v1}}", "{tokenFile: /etc/passwd}",
             "{client-certificate: /etc/passwd, client-key: /etc/passwd}"]
)  # fmt: skip
def test_a_kubeconfig_in_a_secret_may_neither_run_commands_nor_read_files(user: str) -> None:
    text = f"current-context: a\ncontexts: []\nusers: [{{name: u, user: {user}}}]\n".encode()
    with pytest.raises(Exception, match="not allowed here"):
        kubeconfig.parse(text, "of Cluster default/x")


@in_virtual_time
async def test_instances_that_are_listed_twice_count_once(scene: World, stage: Stage) -> None:
    await stage.set()
    await add_good_pool(stage)
    await stage.add_nodes("bad-0")
    await stage.add_infrastructure("bad", ["test:///bad-0", "test:///bad-0"], replicas=1)
    await stage.add_pool("bad", 1)
    async with scene.controlled():
        pool = await check(scene, "bad", "DuplicateProviderIDs", "test:///bad-0")
        assert pool["status"]["phase"] == "Running"
        assert old(pool)["readyReplicas"] == len(pool["status"]["nodeRefs"]) == 1
        assert "unavailableReplicas" not in old(pool)


@in_virtual_time
async def test_an_empty_provider_id_counts_for_nothing(scene: World, stage: Stage) -> None:
    await stage.set()
    await add_good_pool(stage)
    await stage.add_nodes("bad-0")
    await stage.add_infrastructure("bad", ["", "test:///bad-0"], replicas=1)
    await stage.add_pool("bad", 1)
    async with scene.controlled():
        pool = await check(scene, "bad", "EmptyProviderID")
        assert pool["spec"]["providerIDList"] == ["test:///bad-0"]
        assert pool["status"]["phase"] == "Running"


@in_virtual_time
async def test_an_instance_of_two_pools_counts_for_the_older_one_and_both_say_so(scene: World, stage: Stage) -> None:
    await stage.set()
    await add_good_pool(stage)
    await stage.add_nodes("shared", "own")
    await stage.add_infrastructure("a-young", ["test:///shared", "test:///own"])
    await stage.add_infrastructure("b-old", ["test:///shared"])
    await stage.add_pool("b-old", 1)
    await scene.settle(10.0)
    await stage.add_pool("a-young", 2)
    async with scene.controlled():
        older = await check(scene, "b-old", "ProviderIDClaimedTwice", "default/a-young", "test:///shared")
        younger = await check(scene, "a-young", "ProviderIDClaimedTwice", "default/b-old", "test:///shared")
        assert [ref["name"] for ref in older["status"]["nodeRefs"]] == ["shared"]
        assert [ref["name"] for ref in younger["status"]["nodeRefs"]] == ["own"]
        node = await scene.get("Node", "shared")
        assert node is not None
        assert node["metadata"]["annotations"]["cluster.x-k8s.io/owner-name"] == "b-old"
        await scene.delete("MachinePool", "a-young")
        await scene.settle(10.0)
        assert await scene.get("Node", "shared") is not None
        assert await scene.get("Node", "own") is None
        assert "InputsValid" not in conditions(await scene.pool("b-old"))


@in_virtual_time
async def test_two_nodes_of_one_instance_are_named_and_the_ready_one_counts(scene: World, stage: Stage) -> None:
    await stage.set()
    await add_good_pool(stage)
    await scene.apply(management_cluster.node("a-stale", ready=False, provider_id="test:///bad"))
    await scene.apply(management_cluster.node("b-fresh", provider_id="test:///bad"))
    await stage.add_infrastructure("bad", ["test:///bad"])
    await stage.add_pool("bad", 1)
    async with scene.controlled():
        pool = await check(scene, "bad", "DuplicateNodes", "a-stale", "b-fresh")
        assert [ref["name"] for ref in pool["status"]["nodeRefs"]] == ["b-fresh"]


@in_virtual_time
async def test_infrastructure_that_someone_else_controls_is_left_to_them(scene: World, stage: Stage) -> None:
    await stage.set()
    await add_good_pool(stage)
    await stage.add_infrastructure("bad", [])
    owner = {"apiVersion": "example.com/v1", "kind": "Fleet", "name": "f", "uid": "1", "controller": True}
    kind = {"apiVersion": f"{management_cluster.INFRASTRUCTURE}/v1beta1", "kind": "NewPool"}
    await scene.apply({**kind, "metadata": {"name": "bad", "ownerReferences": [owner]}})
    await stage.add_pool("bad", 0)
    async with scene.controlled():
        await check(scene, "bad", "AlreadyOwned", "Fleet f")
        infra = await scene.get("NewPool", "bad")
        assert infra is not None
        assert [item["kind"] for item in infra["metadata"]["ownerReferences"]] == ["Fleet"]


@in_virtual_time
async def test_a_missing_cluster_is_told_of_and_nothing_is_written(scene: World, stage: Stage) -> None:
    await stage.set()
    await add_good_pool(stage)
    await stage.add_infrastructure("bad", [])
    await stage.add_pool("bad", 0, cluster="nowhere")
    async with scene.controlled():
        pool = await scene.pool("bad")
        assert "finalizers" not in pool["metadata"]
        assert "status" not in pool
        assert [event["message"] for event in await scene.events("bad")] == ["Cluster default/nowhere not found"]
        assert (await scene.pool("good"))["status"]["phase"] == "Running"


@in_virtual_time
async def test_a_provider_that_writes_nonsense_stops_nobody(scene: World, stage: Stage) -> None:
    await stage.set()
    await add_good_pool(stage)
    await stage.add_infrastructure("bad", [])
    kind = {
        "apiVersion": f"{management_cluster.INFRASTRUCTURE}/v1beta1",
        "kind": "NewPool",
        "metadata": {"name": "bad"},
    }
    nonsense = {"ready": "yes", "replicas": "two", "failureReason": 7, "infrastructureMachineKind": []}
    await scene.apply({**kind, "spec": {"providerIDList": [1, None]}, "status": nonsense})
    await stage.add_pool("bad", 0)
    async with scene.controlled():
        assert (await scene.pool("bad"))["status"]["phase"] == "Provisioning"
        assert (await scene.pool("good"))["status"]["phase"] == "Running"


class Leaking:
    """A server that a tenant chose: it answers with what only we should see."""

    def __init__(self, status: int) -> None:
        self.status = status

    async def send(self, request: transport.Request) -> transport.Response:
        async def stream() -> AsyncGenerator[bytes, None]:
            if self.status == LOST:
                raise errors.ConnectionLost(request.call, f"Bad status line {SECRET!r}")
            yield b'{"AccessKeyId":"%s","reason":"%s","message":"%s"}\n' % ((SECRET.encode(),) * 3)

        return transport.Response(self.status, {"content-type": "application/json"}, stream())


SECRET = "AKIAEXAMPLE"
OK = 200
LOST = 299
"""Stands for a connection that breaks, with what was read of it in the error."""


@pytest.mark.parametrize("status", [OK, 302, 401, 403, 404, 500, LOST])
def test_what_a_workload_cluster_answers_is_not_told_by_the_pool(status: int) -> None:
    @in_virtual_time
    async def play(scene: World, stage: Stage) -> None:
        await stage.set()
        await stage.add_infrastructure("bad", [])
        await stage.add_cluster("leaking")
        await stage.add_pool("bad", 0, cluster="leaking")
        scene.carriers["https://leaking.example:6443"] = Leaking(status)
        async with scene.controlled():
            await scene.settle(60.0)
            pool = await scene.pool("bad")
            if status != OK:
                said = conditions(pool)["InputsValid"]
                assert (said["status"], said["reason"]) == ("False", "WorkloadClusterUnreachable")
            assert SECRET not in json.dumps(pool) + json.dumps(await scene.events("bad"))

    play()


@pytest.mark.parametrize(
    "server", ["http://work.example:80", "https://127.0.0.1:6443", "https://work.example/x?y=", "https://[::1"]
)
def test_a_kubeconfig_that_leads_where_it_should_not_is_named(server: str) -> None:
    @in_virtual_time
    async def play(scene: World, stage: Stage) -> None:
        await stage.set()
        await add_good_pool(stage)
        await stage.add_cluster("odd", management_cluster.kubeconfig(server))
        await stage.add_infrastructure("bad", [])
        await stage.add_pool("bad", 0, cluster="odd")
        async with scene.controlled():
            await check(scene, "bad", "KubeconfigInvalid", "default/odd-kubeconfig", "server: ")

    play()


class Failing:
    """A way that nobody foresaw to fail."""

    async def send(self, request: transport.Request) -> transport.Response:
        raise LookupError(SECRET)


@in_virtual_time
async def test_what_nobody_foresaw_costs_one_cluster(scene: World, stage: Stage) -> None:
    await stage.set()
    await add_good_pool(stage)
    await stage.add_infrastructure("bad", [])
    await stage.add_cluster("failing")
    await stage.add_pool("bad", 0, cluster="failing")
    scene.carriers["https://failing.example:6443"] = Failing()
    async with scene.controlled():
        await scene.settle(60.0)
        pool = await check(scene, "bad", "WorkloadClusterUnreachable", "default/failing")
        assert SECRET not in json.dumps(pool)
