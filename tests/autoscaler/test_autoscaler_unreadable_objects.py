"""What cannot be read is not gone: no node leaves under a pod that cannot be read, nor because it cannot be itself.

The whole loop, in virtual time, on objects that come over a watch.
"""

from dataclasses import replace
from typing import Any

import pytest
from aiohttp import test_utils, web

from tests.autoscaler.in_process_cluster import Cluster, play
from tests.autoscaler.test_autoscaler import quick
from windlass import klog
from windlass.autoscaler.autoscaler import Autoscaler
from windlass.autoscaler.readers import nodes, pods
from windlass.kube import fields, resources
from windlass.kube.models import core
from windlass.kube.models import pods as pod_models
from windlass.observability import status_routes

AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "generation", "operator": "Gt", "values": ["v3"]}]},
                {"matchExpressions": [{"key": "group", "operator": "Exists"}]},
            ]
        }
    }
}
GREATER = [{"key": "sla", "operator": "Gt", "value": "900", "effect": "NoSchedule"}]


async def run(cluster: Cluster, cpu: str, spec: dict[str, Any]) -> tuple[int, list[str], list[str]]:
    """Two nodes, a pod on each: the group's size and the nodes that drain after two minutes, and what is complained of.

    Over when a node begins to go.
    """
    cluster.add_group("a", 2, delete_s=1.0)
    cluster.register_nodes()
    cluster.add_pod("p", "3", node="a-1")
    cluster.add_pod("precious", cpu, node="a-2", spec=spec)
    async with cluster.autoscaling() as running:
        for _ in range(1200):
            cluster.register_nodes()
            await cluster.clock.sleep(0.1)
            if cluster.provider.groups["a"].size < 2 or running.memory.durable.drains:
                break
        drains = list(running.memory.durable.drains)
        return cluster.provider.groups["a"].size, drains, [str(invalid) for invalid in running.set_aside]


def test_a_pod_that_can_be_read_and_finds_room_elsewhere_leaves_its_node() -> None:
    async def scenario(cluster: Cluster) -> None:
        _, drains, set_aside = await run(cluster, "100m", {})
        assert (drains, set_aside) == (["a-2"], [])

    play(scenario, quick())


@pytest.mark.parametrize(
    ("spec", "named"),
    [({"affinity": AFFINITY}, "values: found ['v3']"), ({"tolerations": GREATER}, "operator: found 'Gt'")],
)
def test_terms_that_kube_scheduler_passes_over_make_no_pod_invisible(spec: dict[str, Any], named: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        size, drains, set_aside = await run(cluster, "3", spec)
        assert (size, drains) == (2, [])
        assert [named in item and "default/precious" in item for item in set_aside] == [True]

    play(scenario, quick())


BAD_SELECTOR = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["not valid"]}]}
PREFERRED = {
    "podAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": BAD_SELECTOR}}
        ]
    }
}


def spread_by(when: str) -> dict[str, Any]:
    constraint = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": when, "labelSelector": BAD_SELECTOR}
    return {"topologySpreadConstraints": [constraint]}


@pytest.mark.parametrize("spec", [{"affinity": PREFERRED}, spread_by("DoNotSchedule")])
def test_a_pod_with_a_selector_that_kube_scheduler_cannot_parse_fits_on_no_other_node(spec: dict[str, Any]) -> None:
    """It would wait for ever, so its node stays; and the pod is named."""

    async def scenario(cluster: Cluster) -> None:
        size, drains, set_aside = await run(cluster, "100m", spec)
        assert (size, drains) == (2, [])
        assert ["default/precious" in item and "found ['not valid']" in item for item in set_aside] == [True]

    play(scenario, quick())


@pytest.mark.parametrize(
    ("spec", "size"),
    [({"affinity": PREFERRED}, 1), (spread_by("DoNotSchedule"), 1), (spread_by("ScheduleAnyway"), 2)],
)
def test_no_node_is_added_for_a_pod_that_fits_on_none(spec: dict[str, Any], size: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1)
        cluster.register_nodes()
        cluster.add_pod("there", "4", node="a-1")
        cluster.add_pod("waiting", "3", spec=spec)
        async with cluster.autoscaling():
            await cluster.clock.sleep(30.0)
            assert cluster.provider.groups["a"].size == size

    play(scenario, quick())


def test_a_soft_constraint_that_cannot_be_parsed_keeps_no_node() -> None:
    async def scenario(cluster: Cluster) -> None:
        _, drains, set_aside = await run(cluster, "100m", spread_by("ScheduleAnyway"))
        assert (drains, set_aside) == (["a-2"], [])

    play(scenario, quick())


@pytest.mark.parametrize("error", [fields.InvalidField("spec.future", "x", "what is known"), ValueError("unforeseen")])
def test_a_pod_that_cannot_be_read_keeps_its_node(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    read = pods.PodReader._read

    def refuse(self: pods.PodReader, pod: pod_models.Pod, pending: bool) -> Any:
        if pod.meta.name == "precious":
            raise error
        return read(self, pod, pending)

    monkeypatch.setattr(pods.PodReader, "_read", refuse)
    before = klog.UNEXPECTED_ERRORS.counts()[klog.ErrorPlace.INFORMER]

    async def scenario(cluster: Cluster) -> None:
        size, drains, set_aside = await run(cluster, "100m", {})
        assert (size, drains) == (2, [])
        assert ["default/precious" in item for item in set_aside] == [True]

    play(scenario, quick())
    is_unforeseen = not isinstance(error, fields.InvalidField)
    assert (klog.UNEXPECTED_ERRORS.counts()[klog.ErrorPlace.INFORMER] > before) == is_unforeseen


@pytest.mark.parametrize("error", [fields.InvalidField("spec.future", "x", "what is known"), ValueError("unforeseen")])
def test_a_node_that_cannot_be_read_is_in_use(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    read = nodes._read_node

    def refuse(node: core.Node) -> Any:
        if node.meta.name == "a-2":
            raise error
        return read(node)

    monkeypatch.setattr(nodes, "_read_node", refuse)

    async def scenario(cluster: Cluster) -> None:
        size, drains, set_aside = await run(cluster, "100m", {})
        assert (size, drains) == (2, [])
        assert ["Node a-2" in item for item in set_aside] == [True]

    play(scenario, quick())


def test_an_amount_too_large_to_be_counted_is_told_of() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_pod("huge", "1e5000")
        size, drains, set_aside = await run(cluster, "3", {})
        assert (size, drains) == (2, [])
        counted = "found '100e4998', expected less than 9223372036854775807m, as which it counts"
        assert set_aside == [f"Pod default/huge: spec.containers[0].resources.requests[cpu]: {counted}"]

    play(scenario, quick())


@pytest.mark.parametrize(
    ("part", "resource", "amount"),
    [
        ("capacity", "cpu", "9999Ei"),
        ("allocatable", "cpu", "1e5000"),
        ("capacity", "memory", "1e30"),
        ("capacity", "nvidia.com/gpu", "1e30"),
    ],
)
def test_a_node_that_claims_what_no_machine_has_stops_no_scale_up(part: str, resource: str, amount: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1, delete_s=1.0)
        cluster.register_nodes()
        status: dict[str, Any] = {item: {"cpu": "4", "memory": "8Gi"} for item in ("capacity", "allocatable")}
        status[part] |= {resource: amount}
        status["conditions"] = [{"type": "Ready", "status": "True"}]
        cluster.server.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "boastful"}}, "kubelet")
        cluster._tell(resources.NODES, "boastful", status)
        async with cluster.autoscaling() as running:
            await cluster.clock.sleep(30)
            for number in range(3):
                cluster.add_pod(f"p-{number}", "3")
            for _ in range(300):
                cluster.register_nodes()
                await cluster.clock.sleep(0.1)
            assert cluster.provider.groups["a"].size == 3  # nothing is placed on a node that cannot be read
            [complaint] = running.set_aside
            assert str(complaint).startswith(f"Node boastful: status.{part}[{resource}]: found ")
            node = running._cluster_state.find_node("boastful")
            assert node is not None
            assert node.unreadable
            assert resource not in dict(getattr(node, part))
            assert str(complaint) in await explain(running, "/explain/node/boastful", 200)

    play(scenario, quick())


def test_a_pod_that_waits_and_cannot_be_read_is_named_when_someone_asks_for_it() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_pod("odd", "1", spec={"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1}]})
        async with cluster.autoscaling() as running:
            await cluster.clock.sleep(30)
            told = await explain(running, "/explain/pod/default/odd", 404)
            assert "pod default/odd is left alone: Pod default/odd: spec.topologySpreadConstraints[0]" in told

    play(scenario, quick())


def test_a_pod_that_is_not_used_as_it_is_says_so_when_someone_asks_for_it() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_pod("odd", "1", spec={"tolerations": GREATER})
        async with cluster.autoscaling() as running:
            await cluster.clock.sleep(30)
            told = await explain(running, "/explain/pod/default/odd?output=text", 200)
            assert "It is not used as it is: Pod default/odd: spec.tolerations[0].operator: found 'Gt'" in told

    play(scenario, quick())


async def explain(running: Autoscaler, path: str, status: int) -> str:
    app = web.Application()
    status_routes.add_explain_routes(app, running)
    request = test_utils.make_mocked_request("GET", path, app=app)
    match = await app.router.resolve(request)
    request._match_info = match
    answer = await match.handler(request)
    assert isinstance(answer, web.Response)
    assert answer.status == status
    return str(answer.text)


def test_priorities_that_cannot_be_read_leave_those_before_in_force_and_say_so() -> None:
    """Rules that prefer b are read, and then made unreadable: b goes on being preferred."""

    def priorities(text: str) -> dict[str, Any]:
        metadata = {"name": "cluster-autoscaler-priority-expander", "namespace": "kube-system"}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"priorities": text}}

    async def scenario(cluster: Cluster) -> None:
        cluster.writes_events = True
        groups = [cluster.add_group("a"), cluster.add_group("b")]
        cluster.server.apply(priorities("50: [b]\n10: ['.*']\n"))
        async with cluster.autoscaling() as running:
            cluster.add_pod("first", "3")
            await cluster.until(lambda: groups[1].size == 1)
            cluster.server.apply(priorities("fifty: [a"))
            await cluster.until(lambda: running.set_aside)
            for number in range(8):
                cluster.add_pod(f"then-{number}", "3")
            await cluster.until(lambda: groups[1].size == 9)
            assert groups[0].size == 0
            await cluster.clock.sleep(10)
        (event,) = [item for item in await cluster.events() if item["reason"] == "PriorityConfigMapInvalid"]
        assert event["involvedObject"]["name"] == "cluster-autoscaler-priority-expander"
        assert event["message"].startswith("Wrong configuration for priority expander: ConfigMap kube-system/")

    settings = quick()
    play(scenario, replace(settings, scale_up=replace(settings.scale_up, expander=("priority",))))
