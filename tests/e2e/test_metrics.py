"""Metrics that no other test here moves: GPUs, groups that go as a whole, limits, failed loops, options of the process.

`tests/emissions.py` puts together what was seen of all metrics, and fails a run of all tests here if one never moved.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.autoscaler.grpc_expander import go_server
from tests.e2e.scale_scenario import Scene

GPU, ACCELERATOR = "nvidia.com/gpu", "cluster-api/accelerator"
HAS: Any = {"cpu": "4", "memory": "16Gi", "pods": "110", GPU: "1"}
PROMISED: Any = {"cores": "4", "memory": "16Gi", "gpu-type": GPU, "gpu-count": "1"}
MEMORY = "/configmaps/windlass-memory$"
TRACKING = (
    "--max-node-skip-eval-time-tracker-enabled",
    "--scaleup-simulation-for-skipped-node-groups-enabled",
    "--scale-down-simulation-timeout=1ns",
    "--scale-down-delay-after-add=10m",
)
"""No candidate for removal is evaluated in a nanosecond."""


@pytest.mark.together
def test_nodes_with_gpus_that_go_are_counted_as_such(scene: Scene) -> None:
    node = {"capacity": HAS, "labels": {ACCELERATOR: "a100"}}
    group = scene.group("a", 1, node=node, unneeded="1s", **PROMISED)
    group.wait_replicas(0)
    scene.live.wait_metric("cluster_autoscaler_scaled_down_gpu_nodes_total", gpu_resource_name=GPU)


@pytest.mark.together
def test_nodes_with_gpus_that_do_not_come_are_counted_as_such(scene: Scene) -> None:
    node = {"capacity": HAS, "labels": {ACCELERATOR: "a100"}}
    group = scene.group("a", node=node, fail="quota exceeded", provision="1h", **PROMISED)
    limits = {"requests": {"cpu": "100m", GPU: "1"}, "limits": {GPU: "1"}}
    scene.pods("train", 1, [group], containers=[{"name": "main", "image": "none", "resources": limits}])
    scene.live.wait_metric("cluster_autoscaler_failed_gpu_scale_ups_total", gpu_resource_name=GPU)


@pytest.mark.together
def test_an_empty_node_waits_for_the_drain_of_another_of_a_group_that_goes_as_a_whole(scene: Scene) -> None:
    whole, other = scene.group("whole", 2, zero_or_max="true"), scene.group("other")
    whole.wait_nodes(2)
    scene.pods("web", 1, [whole, other], hold=True)
    scene.wait_running(1)
    other.annotate(min_size="1")  # its node takes the pod, and does not go itself
    other.scale(1)
    other.wait_nodes(1)
    whole.annotate(unneeded="1s")
    scene.wait("the pod is being evicted", scene.leaving)  # nodes of other tests may be pending before
    scene.live.wait_metric("cluster_autoscaler_pending_node_deletions")
    assert whole.replicas == 2
    scene.release()
    whole.wait_replicas(0)
    scene.wait_running(1)
    assert list(scene.places()) == other.names()


@pytest.mark.together
def test_nodes_beyond_the_limits_of_the_cluster_are_counted_as_skipped(scene: Scene) -> None:
    group = scene.group("a", cpu=400_000)  # --cores-total allows 320,000 by default
    scene.pods("web", 1, [group])
    scene.live.wait_metric("cluster_autoscaler_skipped_scale_events_count", direction="up", reason="CpuResourceLimit")
    assert group.replicas == 0


def test_a_loop_whose_memory_cannot_be_written_is_an_error_and_orders_nothing(scene: Scene) -> None:
    group = scene.group("a")
    scene.pods("first", 1, [group], cpu="3")
    scene.wait_running(1)  # from now on there is a memory, which is replaced; the first one was created
    failed = 'cluster_autoscaler_errors_total{type="apiCallError"}'
    before = scene.wait("it answers", scene.live.metrics).get(failed, 0.0)
    with scene.gateway.refusing("PUT", MEMORY, 422, "Invalid"):
        scene.pods("web", 1, [group], cpu="3")
        scene.wait("a loop fails", lambda: scene.live.metrics().get(failed, 0.0), lambda now: now > before)
        assert group.replicas == 1
    scene.wait_running(2)
    assert group.replicas == 2


def test_an_expander_of_the_user_is_followed_and_options_of_metrics_take_effect(
    scene: Scene, expander_binary: Path
) -> None:
    small, large = scene.group("small"), scene.group("large", cpu=8)
    scene.live.kill()
    with go_server.serving(expander_binary) as served:
        served.tell(f"answer {large.id}")
        scene.live.start("--expander=grpc", f"--grpc-expander-url=http://127.0.0.1:{served.port}", *TRACKING)
        scene.pods("web", 1, [small, large])
        scene.live.wait_metric("windlass_expander_answers_total", worth="followed")
        scene.wait_running(1)
        assert (small.replicas, large.replicas) == (0, 1)
        scene.live.wait_metric("cluster_autoscaler_scale_down_in_cooldown")
        scene.live.wait_metric("cluster_autoscaler_max_node_skip_eval_duration_seconds")
    scene.live.kill()
