"""Cloud TPUs are attached over the network: no node has them, so that requests for them rule out no node."""

from dataclasses import replace
from typing import Any

import pytest

from tests.engine.loop.builders import (
    BOTH,
    LONG_AGO_S,
    NOW_S,
    at_once,
    decide_once,
    drained,
    group,
    nodes,
    observe,
    running,
    sizes,
)
from windlass.autoscaler import informer_sinks
from windlass.engine.model import facts
from windlass.engine.model.settings import Settings
from windlass.engine.snapshot import cluster_snapshot
from windlass.kube import scheme
from windlass.kube.models import pods as pod_models

behaviors = pytest.mark.parametrize("settings", BOTH, ids=["cluster-autoscaler", "windlass"])
TPU = "cloud-tpus.google.com/v4"


def read_pod(name: str, cpu: str, resource: str, on: str = "") -> facts.Pod:
    """A pod as the autoscaler takes it from the API server, which requests two of a resource beside its cpu."""
    requests = {"cpu": cpu, resource: "2"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "app", "uid": "uid-app", "controller": True}
    spec: dict[str, Any] = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
    if on:
        spec["nodeName"] = on
    conditions = [] if on else [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    raw = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "ownerReferences": [owner]},
        "spec": spec,
        "status": {"phase": "Running" if on else "Pending", "conditions": conditions},
    }
    kept = cluster_snapshot.Snapshot()
    pod = scheme.decode_as(pod_models.Pod, raw)
    informer_sinks.pod_sink(kept, informer_sinks.ChangeBuffer()).put(pod.meta, pod)
    return replace(kept.pod(0), node_name=on, created_s=LONG_AGO_S if on else NOW_S - 60.0)


@behaviors
@pytest.mark.parametrize(("resource", "wanted"), [(TPU, {"g": 2}), ("example.com/tpu", {})])
def test_a_pending_pod_with_a_tpu_is_helped(settings: Settings, resource: str, wanted: dict[str, int]) -> None:
    there = nodes("g", 1)
    pods = [running("busy", "g-0", 4000), read_pod("p", "3", resource)]
    assert sizes(decide_once(observe([group("g", there)], there, pods), settings)) == wanted


@behaviors
@pytest.mark.parametrize(("resource", "wanted"), [(TPU, ["g-0"]), ("example.com/tpu", [])])
def test_a_pod_with_a_tpu_finds_a_place_on_another_node(settings: Settings, resource: str, wanted: list[str]) -> None:
    there = nodes("g", 2)
    pods = [read_pod("small", "500m", resource, on="g-0"), running("busy", "g-1", 3000)]
    assert drained(decide_once(observe([group("g", there)], there, pods), at_once(settings))) == wanted


def test_no_device_is_wanted_for_a_tpu() -> None:
    assert not read_pod("p", "1", TPU).spec.extended
    assert read_pod("p", "1", "example.com/tpu").spec.extended
