"""Nodes, templates and pods that name a GPU resource with the amount zero.

Zero GPUs are no GPUs: a node without the GPU label is an ordinary node, one with it is not ready yet.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest

from tests.engine.loop.builders import (
    BOTH,
    NOW_S,
    PEER,
    at_once,
    choose,
    decide_once,
    drained,
    group,
    node,
    observe,
    reasons,
    result,
    running,
    sizes,
)
from tests.engine.loop.builders import pending as pending_pod
from windlass.autoscaler.readers import nodes as node_reader
from windlass.autoscaler.readers import pods as pod_reader
from windlass.engine.model import facts, well_known
from windlass.engine.model.scale_down_state import UnremovableReason
from windlass.engine.model.scale_up_status import ScaleUpResult
from windlass.engine.model.settings import GpuBounds, Settings
from windlass.kube import scheme
from windlass.kube.models import core
from windlass.kube.models import pods as pod_models
from windlass.observability import counter_values

NVIDIA, AMD = "nvidia.com/gpu", "amd.com/gpu"
LABEL = {well_known.CLUSTER_API_GPU_LABEL: "a100"}
NOTHING: Mapping[str, int] = MappingProxyType({})
behaviors = pytest.mark.parametrize("settings", BOTH, ids=["cluster-autoscaler", "windlass"])


def with_gpus(
    name: str,
    labels: Mapping[str, str],
    allocatable: Mapping[str, int],
    capacity: Mapping[str, int] = NOTHING,
) -> facts.Node:
    """A node of four cores with these GPUs, read from an object."""
    has = {"cpu": "4", "memory": "1000", "pods": "100"}
    shown = {vendor: str(count) for vendor, count in allocatable.items()}
    found = {
        "metadata": {
            "name": name,
            "labels": {facts.HOSTNAME: name, **labels},
            "creationTimestamp": "1970-01-11T00:00:00Z",
        },
        "spec": {"providerID": f"id://{name}"},
        "status": {
            "capacity": {**has, **shown, **{vendor: str(count) for vendor, count in capacity.items()}},
            "allocatable": {**has, **shown},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-11T00:00:00Z"}],
        },
    }
    return node_reader.read_node(scheme.decode_as(core.Node, found))


def wanting(name: str, created: str, **requests: str) -> facts.Pod:
    """A pod that the scheduler found no place for, read from an object."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "lastTransitionTime": created,
    }
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1", **requests}}}
    found = {
        "metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}", "creationTimestamp": created},
        "spec": {"containers": [container]},
        "status": {"phase": "Pending", "conditions": [condition]},
    }
    return pod_reader.PodReader(remembered=10).read(scheme.decode_as(pod_models.Pod, found))


@behaviors
@pytest.mark.parametrize(
    ("labels", "gpus", "ready"),
    [
        ({}, {NVIDIA: 0}, True),
        (LABEL, {NVIDIA: 0}, False),
        (LABEL, {NVIDIA: 0, AMD: 0}, False),
        (LABEL, {NVIDIA: 0, AMD: 2}, True),
    ],
    ids=["no-label", "label", "label-two-vendors", "label-other-vendor"],
)
def test_a_labelled_node_is_ready_once_any_vendor_shows_more_than_zero(
    settings: Settings, labels: dict[str, str], gpus: dict[str, int], ready: bool
) -> None:
    there = with_gpus("g-0", labels, gpus)
    found = decide_once(observe([group("g", [there])], [there]), settings).story.health.total
    assert (found.ready, found.resource_unready) == ((("g-0",), ()) if ready else ((), ("g-0",)))


@behaviors
@pytest.mark.parametrize("capacity", [{}, {NVIDIA: 8}], ids=["none", "all-devices-unhealthy"])
def test_cores_count_on_an_unlabelled_node_with_zero_gpus(settings: Settings, capacity: dict[str, int]) -> None:
    """Its utilization is that of cpu and memory, even where the devices show in its capacity alone."""
    there = with_gpus("g-0", {}, {NVIDIA: 0}, capacity)
    spare = node("h-0")
    pods = [running("busy", "g-0", 3000), running("full", "h-0", 3900)]
    decision = decide_once(observe([group("g", [there]), group("h", [spare])], [there, spare], pods), at_once(settings))
    assert reasons(decision)["g-0"] is UnremovableReason.NOT_UNDERUTILIZED


@behaviors
def test_zero_gpus_on_a_labelled_node_are_unused(settings: Settings) -> None:
    """A node without its driver can be removed, however busy its cores are."""
    there, spare = with_gpus("g-0", LABEL, {NVIDIA: 0}), node("h-0", cpu=8000)
    pods = [running("busy", "g-0", 3000), running("full", "h-0", 4900)]
    decision = decide_once(observe([group("g", [there]), group("h", [spare])], [there, spare], pods), at_once(settings))
    assert drained(decision) == ["g-0"]


@behaviors
def test_a_labelled_node_without_a_group_and_with_zero_gpus_cannot_be_counted(settings: Settings) -> None:
    stray = with_gpus("stray", LABEL, {NVIDIA: 0})
    full, waiting = running("full", "stray", 4000), pending_pod("p")
    decision = decide_once(observe([group("g")], [stray], [full, waiting]), settings)
    expected = ScaleUpResult.ERROR if settings is PEER else ScaleUpResult.SUCCESSFUL
    assert result(decision) is expected


@behaviors
@pytest.mark.parametrize(("most", "expected"), [(8, {"g": 2}), (7, {})])
def test_the_template_stands_in_for_zero_gpus(settings: Settings, most: int, expected: dict[str, int]) -> None:
    """The node will have as many GPUs as the template of its group: --gpu-total counts them, whichever the vendor."""
    there = with_gpus("g-0", LABEL, {NVIDIA: 0})
    template = replace(with_gpus("template", LABEL, {NVIDIA: 0, AMD: 4}), provider_id="")
    limited = choose(settings, "limits", gpu_total=(GpuBounds("a100", 0, most),))
    pods = [running("full", "g-0", 4000), pending_pod("p")]
    assert sizes(decide_once(observe([group("g", [there], template=template)], [there], pods), limited)) == expected


@pytest.mark.parametrize(("amount", "waits"), [("0", False), ("1", True)])
def test_only_pods_that_request_some_gpu_are_waited_for(amount: str, waits: bool) -> None:
    template = replace(with_gpus("template", {}, {NVIDIA: 8}), provider_id="")
    pod = wanting("p", "1970-01-12T13:46:30Z", **{NVIDIA: amount})
    assert NOW_S - pod.created_s == 10.0
    decision = decide_once(observe([group("g", template=template)], [], [pod]), PEER)
    assert result(decision) is (ScaleUpResult.IN_COOLDOWN if waits else ScaleUpResult.SUCCESSFUL)


@pytest.mark.parametrize(
    ("labels", "gpus", "capacity", "template", "expected"),
    [
        ({}, {NVIDIA: 0}, {}, {}, ("", "")),
        ({}, {NVIDIA: 0}, {NVIDIA: 8}, {}, ("", "")),
        ({}, {NVIDIA: 2}, {}, {}, (NVIDIA, "generic")),
        ({well_known.CLUSTER_API_GPU_LABEL: ""}, {NVIDIA: 0}, {NVIDIA: 8}, {}, (NVIDIA, "generic")),
        (LABEL, {NVIDIA: 0}, {}, {}, (NVIDIA, "not-listed")),
        (LABEL, {}, {}, {NVIDIA: 0}, (NVIDIA, "missing-gpu")),
        (LABEL, {}, {}, {}, (NVIDIA, "unexpected-label")),
        (LABEL, {NVIDIA: 0, AMD: 2}, {}, {}, (AMD, "not-listed")),
    ],
)
def test_metrics_name_the_gpus_as_cluster_autoscaler_does(
    labels: dict[str, str],
    gpus: dict[str, int],
    capacity: dict[str, int],
    template: dict[str, int],
    expected: tuple[str, str],
) -> None:
    found = with_gpus("g-0", labels, gpus, capacity)
    assert counter_values.describe_gpu(found, group("g", template=with_gpus("template", {}, template))) == expected
