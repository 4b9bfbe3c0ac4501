"""Metrics of devices and CapacityBuffers on a live loop: labels are filled, and gauges move with what they describe."""

from dataclasses import replace
from typing import Any

import pytest

from tests.autoscaler.capacity_apis.api_objects import add_buffer, played, serving
from tests.autoscaler.capacity_apis.test_capacity_buffers import SPARE
from tests.autoscaler.in_process_cluster import Cluster, play, template
from tests.autoscaler.test_autoscaler import quick
from tests.autoscaler.test_autoscaler_dra import GROUP, _claim, _device_class
from tests.engine.dra.builders import DRIVER, device, gpus, pool
from tests.observability.test_metric_definitions import samples, value
from tests.providers import fake_provider
from windlass.autoscaler.autoscaler import Autoscaler
from windlass.engine.model.dynamic_resources import ResourceSlice
from windlass.kube import request_builders, resources
from windlass.observability import gauge_values

MISMATCH = "cluster_autoscaler_dra_node_template_resources_mismatch"
RECONCILED = "cluster_autoscaler_capacity_buffer_oldest_reconciliation_timestamp_seconds"
GPU = {"gpu_resource_name": "", "gpu_name": ""}


def scrape(running: Autoscaler) -> str:
    return running._reporter.metrics.render().decode()


def find_mismatches(running: Autoscaler) -> dict[str, float]:
    """By kind of difference."""
    return {
        dict(labels)["mismatch_type"]: number for name, labels, number in samples(scrape(running)) if name == MISMATCH
    }


def publish(cluster: Cluster, node: str, devices: dict[str, dict[str, Any]]) -> None:
    """As a driver does: a pool named after its node, devices with their attributes."""
    listed = [{"name": name, "attributes": attributes} for name, attributes in devices.items()]
    spec = {
        "driver": DRIVER, "nodeName": node, "devices": listed,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
    }  # fmt: skip
    cluster.server.apply(
        {"apiVersion": GROUP, "kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec}, "test"
    )


def test_nodes_asked_for_and_removed_are_counted_by_the_drivers_of_their_devices() -> None:
    async def scenario(cluster: Cluster) -> None:
        equipped = replace(template("a"), slices=(gpus("a", 4),))
        cluster.provider.add(fake_provider.Group("a", 0, 10, equipped, boot_s=5.0))
        cluster.server.apply(_device_class(), "test")
        async with cluster.autoscaling() as running:
            cluster.server.apply(_claim("c", 2), "test")
            cluster.add_pod("p", "100m", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]})
            await cluster.until(lambda: len(cluster.provider.nodes) == 1)
            up = value(scrape(running), "cluster_autoscaler_scaled_up_nodes_total", dra_drivers="custom.driver", **GPU)
            assert up == 1
            publish(cluster, cluster.provider.nodes[0].name, {f"gpu-{number}": {} for number in range(4)})
            gone = request_builders.build_delete(
                resources.PODS, "p", "default", request_builders.DeleteOptions(grace_s=0)
            )
            assert cluster.server.handle(gone).status == 200
            await cluster.until(lambda: not cluster.provider.nodes)
            await cluster.clock.sleep(10.0)
            down = value(
                scrape(running), "cluster_autoscaler_scaled_down_nodes_total",
                reason="empty", dra_drivers="custom.driver", **GPU,
            )  # fmt: skip
            assert down == 1

    play(scenario, quick())


@pytest.mark.parametrize(
    ("published", "kind"),
    [
        ({"gpu-0": {"model": {"string": "x"}}, "gpu-1": {"model": {"string": "y"}}}, None),
        ({"gpu-0": {"model": {"string": "x"}}}, "mismatch"),
        ({"gpu-0": {}, "gpu-1": {}}, "mismatch"),
        (
            {"gpu-0": {"model": {"string": "x"}}, "gpu-1": {"model": {"string": "y"}}, "nic": {"port": {"int": 1}}},
            "extra",
        ),
    ],
)
def test_devices_that_differ_from_the_template_are_counted_until_they_do_not(
    published: dict[str, dict[str, Any]], kind: str | None
) -> None:
    async def scenario(cluster: Cluster) -> None:
        promised = (pool("a", device("gpu-0", model="x"), device("gpu-1", model="x")),)
        cluster.provider.add(fake_provider.Group("a", 0, 10, replace(template("a"), slices=promised), size=1))
        cluster.register_nodes()
        cluster.add_pod("p", "3", "a-1")
        publish(cluster, "a-1", published)
        async with cluster.autoscaling() as running:
            await cluster.clock.sleep(1.0)
            assert {name: count for name, count in find_mismatches(running).items() if count} == (
                {kind: 1} if kind else {}
            )

    play(scenario, quick())


def test_a_driver_that_is_about_to_replace_a_pool_is_not_compared() -> None:
    promised = (pool("t", device("gpu-0", model="x")),)
    old = pool("n", device("gpu-0"), generation=1)
    assert gauge_values._compare_devices(promised, (old,)) == {(DRIVER, gauge_values.MISMATCH): 1}
    assert gauge_values._compare_devices(promised, (old, pool("n", device("gpu-0"), generation=2, name="new"))) == {}


def test_a_pool_that_a_node_has_not_is_missing() -> None:
    other = replace(pool("n", device("tpu-0")), driver="tpu.google.com")
    assert gauge_values._compare_devices((pool("t", device("gpu-0")), other), (other,)) == {
        (DRIVER, gauge_values.MISSING): 1
    }


@pytest.mark.parametrize(
    ("drivers", "label"),
    [
        ((), ""),
        (("gpu.nvidia.com",), "gpu.nvidia.com"),
        (
            ("tpu.google.com", "my.example.com", "gpu.nvidia.com", "another.example.com"),
            "custom.driver,gpu.nvidia.com,tpu.google.com",
        ),
    ],
)
def test_few_drivers_have_a_name_of_their_own(drivers: tuple[str, ...], label: str) -> None:
    assert gauge_values.driver_label(tuple(ResourceSlice(item, item, "pool") for item in drivers)) == label


@played(SPARE)
async def test_the_oldest_reconciliation_of_a_buffer_moves_on_with_each(cluster: Cluster) -> None:
    async with serving(cluster) as running:
        add_buffer(cluster, "b", podTemplateRef={"name": "t"}, replicas=1)
        await cluster.clock.sleep(25.0)
        first = value(scrape(running), RECONCILED, new_buffer="false")
        await cluster.clock.sleep(30.0)
        assert cluster.clock.now_s() - value(scrape(running), RECONCILED, new_buffer="false") <= 20.0
        assert value(scrape(running), RECONCILED, new_buffer="false") == first + 30.0
        assert value(scrape(running), RECONCILED, new_buffer="true") >= first, "none waits for its first time"
