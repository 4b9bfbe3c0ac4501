"""Devices in the live loop: claims are followed, and nodes are added for them."""

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.autoscaler.in_process_cluster import Cluster, play, template
from tests.engine.dra.builders import device, gpus, pool
from tests.providers import fake_provider
from windlass.autoscaler.autoscaler import Autoscaler
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.explain import explain_context, pods, render_pods
from windlass.kube import request_builders, resources

GROUP = "resource.k8s.io/v1"


def _claim(name: str, count: int, selector: str = "") -> dict[str, Any]:
    selectors = [{"cel": {"expression": selector}}] if selector else []
    wanted = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, "selectors": selectors}
    spec = {"devices": {"requests": [{"name": "r", "exactly": wanted}]}}
    return {
        "apiVersion": GROUP,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def _device_class() -> dict[str, Any]:
    selector = {"cel": {"expression": 'device.driver == "gpu.example.com"'}}
    return {
        "apiVersion": GROUP,
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [selector]},
    }


def test_pods_with_claims_get_as_many_nodes_as_devices_are_missing() -> None:
    async def scenario(cluster: Cluster) -> None:
        equipped = replace(template("a"), slices=(gpus("a", 4),))
        cluster.provider.add(fake_provider.Group("a", 0, 10, equipped))
        cluster.add_group("plain")
        cluster.server.apply(_device_class(), "test")
        async with cluster.autoscaling():
            for number in range(5):
                cluster.server.apply(_claim(f"c{number}", 2), "test")
                used = [{"name": "gpu", "resourceClaimName": f"c{number}"}]
                cluster.add_pod(f"p{number}", "100m", spec={"resourceClaims": used})
            await cluster.until(lambda: cluster.provider.groups["a"].size > 0)
            assert cluster.provider.groups["a"].size == 3
            assert cluster.provider.groups["plain"].size == 0

    play(scenario)


HOSTILE = {
    "backtracks": 'device.attributes["gpu.example.com"].model.matches("^(a+)+$b")',
    "alternates": '("' + "a" * 40 + 'b").matches("^(a|a)*$")',
    "amount": 'quantity("1e10000").asApproximateFloat() < 1.0',
    "index": '[1, 2][dyn(double("inf"))] == 1',
    "key": "{dyn([1]): 1}.size() == 2",
    "version": f'semver("1.2.3-{"9" * 5000}") == semver("1.2.3")',
    "repeats": 'device.driver.matches("a{1,"+"99999999999999}")',
    "nested": "(" * 3000 + "true" + ")" * 3000,
    "costly": "".join(f"[1, 2, 3, 4, 5, 6, 7, 8, 9].all(v{n}, " for n in range(7)) + "true" + ")" * 7,
}
"""Selectors of a tenant. The API server accepts all but the last two; none of them selects a device."""


COMPLAINTS = {
    "index": "CEL runtime error: unsupported index value +Inf in list",
    "version": "CEL runtime error: strconv.ParseUint: parsing",
    "repeats": "CEL runtime error: error parsing regexp: invalid repeat count",
    "nested": "CEL compile error: compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: 250",
    "costly": "CEL runtime error: operation cancelled: actual cost limit exceeded",
}
"""Of those that fail; the others only select nothing."""


def _explain(name: str, observation: Observation, memory: LoopMemory, settings: Settings, now_s: float) -> str:
    at = explain_context.evaluate(observation, memory, settings, now_s)
    row = at.find_pod("default", name)
    assert row is not None
    return "\n".join(render_pods.render_pod(pods.explain_pod(at, row)))


def test_selectors_of_a_stranger_cost_nobody_else_a_node() -> None:
    async def scenario(cluster: Cluster) -> None:
        models = (device(f"gpu-{number}", model="a" * 40) for number in range(4))
        equipped = replace(template("a"), slices=(pool("a", *models),))
        cluster.provider.add(fake_provider.Group("a", 0, 10, equipped))
        cluster.server.apply(_device_class(), "test")
        async with cluster.autoscaling() as running:
            for name, expression in HOSTILE.items():
                cluster.server.apply(_claim(name, 1, expression), "test")
                cluster.add_pod(name, "100m", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": name}]})
            cluster.server.apply(_claim("modest", 1), "test")
            cluster.add_pod("modest", "100m", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "modest"}]})
            await cluster.until(lambda: cluster.provider.groups["a"].size > 0)
            await cluster.clock.sleep(60)
            assert cluster.provider.groups["a"].size == 1
            assert running.loop.failures == 0
            told = {name: await running.query(partial(_explain, name)) for name in COMPLAINTS}
        for name, complaint in COMPLAINTS.items():
            assert f"claim default/{name}: selector #0: {complaint}" in told[name]

    play(scenario)


def test_selectors_that_cannot_be_evaluated_are_logged_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    failing = {name: HOSTILE[name] for name in COMPLAINTS}
    odd_class = _device_class()
    odd_class["metadata"]["name"] = "odd"
    odd_class["spec"]["selectors"] = [{"cel": {"expression": "[1][dyn(1)] == 1"}}]

    async def scenario(cluster: Cluster) -> None:
        equipped = replace(template("a"), slices=(pool("a", device("gpu-0", model="a")),))
        cluster.provider.add(fake_provider.Group("a", 0, 10, equipped))
        cluster.server.apply(_device_class(), "test")
        cluster.server.apply(odd_class, "test")
        of_class = _claim("of-class", 1)
        of_class["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "odd"
        claims = [*(_claim(name, 1, expression) for name, expression in failing.items()), of_class]
        async with cluster.autoscaling() as running:
            for claim in claims:
                name = claim["metadata"]["name"]
                cluster.server.apply(claim, "test")
                cluster.add_pod(name, "100m", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": name}]})
            await cluster.clock.sleep(60)
            told = [record.getMessage() for record in caplog.records if "set aside" in record.getMessage()]
            for name, complaint in COMPLAINTS.items():
                at = f"ResourceClaim default/{name}: spec.devices.requests[r].selectors[0].cel.expression"
                [line] = [line for line in told if at in line]
                assert complaint in line
            assert len([line for line in told if "DeviceClass odd: spec.selectors[0].cel.expression" in line]) == 1
            assert _count_set_aside(running) == {"ResourceClaim": len(failing), "DeviceClass": 1}
            for name in failing:
                cluster.server.handle(request_builders.build_delete(resources.RESOURCE_CLAIMS, name, "default"))
            await cluster.clock.sleep(60)
            assert _count_set_aside(running) == {"DeviceClass": 1}

    play(scenario)


def _count_set_aside(running: Autoscaler) -> dict[str, int]:
    return dict(Counter(complaint.kind for complaint in running.set_aside))
