"""Devices in the live loop: claims are followed, and nodes are added for them."""

from dataclasses import replace
from typing import Any

from tests.autoscaler.little_cluster import Cluster, play, template
from tests.engine.devices.making import gpus
from windlass.providers import simulated

GROUP = "resource.k8s.io/v1"


def _claim(name: str, count: int) -> dict[str, Any]:
    wanted = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    spec = {"devices": {"requests": [{"name": "r", "exactly": wanted}]}}
    return {
        "apiVersion": GROUP,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def test_pods_with_claims_get_as_many_nodes_as_devices_are_missing() -> None:
    async def scenario(cluster: Cluster) -> None:
        equipped = replace(template("a"), slices=(gpus("a", 4),))
        cluster.provider.add(simulated.Group("a", 0, 10, equipped))
        cluster.add_group("plain")
        selector = {"cel": {"expression": 'device.driver == "gpu.example.com"'}}
        gpu = {
            "apiVersion": GROUP,
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [selector]},
        }
        cluster.server.apply(gpu, "test")
        async with cluster.autoscaling():
            for number in range(5):
                cluster.server.apply(_claim(f"c{number}", 2), "test")
                used = [{"name": "gpu", "resourceClaimName": f"c{number}"}]
                cluster.add_pod(f"p{number}", "100m", spec={"resourceClaims": used})
            await cluster.until(lambda: cluster.provider.groups["a"].size > 0)
            assert cluster.provider.groups["a"].size == 3
            assert cluster.provider.groups["plain"].size == 0

    play(scenario)
