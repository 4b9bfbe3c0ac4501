"""Slices, classes, claims and what pods say of claims, as facts."""

from typing import Any

import pytest

from windlass import errors, klog
from windlass.autoscaler.readers import cluster_dump, dra, pods
from windlass.engine.model import dynamic_resources, facts
from windlass.kube import scheme
from windlass.kube.models import pods as pod_models
from windlass.kube.models import resource

Json = dict[str, Any]
GI = (1 << 30) * 10**9


def read_slice(**spec: Any) -> dynamic_resources.ResourceSlice:
    json = {"metadata": {"name": "s"}, "spec": {"driver": "d", "pool": {"name": "p"}, **spec}}
    return dra.read_resource_slice(scheme.decode_as(resource.ResourceSlice, json))


def read_pod(spec: Json, status: Json | None = None) -> facts.PodSpec:
    json = {"metadata": {"namespace": "ns", "name": "pod", "uid": "u"}, "spec": spec, "status": status or {}}
    return pods.read_pod(scheme.decode_as(pod_models.Pod, json)).spec


def test_a_slice() -> None:
    attributes = {
        "n": {"int": 1},
        "t": {"bool": True},
        "s": {"string": "x"},
        "v": {"version": "1.0.0"},
        "l": {"ints": [1]},
    }
    capacity = {"memory": {"value": "2Gi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi"}}}}
    resource_slice = read_slice(
        nodeName="n",
        pool={"name": "p", "generation": 3, "resourceSliceCount": 2},
        devices=[{"name": "a", "attributes": attributes, "capacity": capacity, "allowMultipleAllocations": True}],
    )
    policy = dynamic_resources.CapacityRequestPolicy(default=GI, has_range=True, minimum=GI)
    traits = dynamic_resources.DeviceTraits(
        (("l", None), ("n", 1), ("s", "x"), ("t", True), ("v", dynamic_resources.VersionValue("1.0.0"))),
        (("memory", dynamic_resources.DeviceCapacity(2 * GI, policy)),),
        True,
    )
    assert resource_slice == dynamic_resources.ResourceSlice(
        "s",
        "d",
        "p",
        3,
        2,
        dynamic_resources.NodeReach(node_name="n"),
        devices=(dynamic_resources.Device("a", traits),),
    )


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"devices": [{"name": "a", "capacity": {"m": {"value": "much"}}}]}, "spec.devices[0].capacity[m].value"),
        ({"sharedCounters": [{"name": "c", "counters": {"m": {"value": "?"}}}]},
         "spec.sharedCounters[0].counters[m].value"),
    ],
)  # fmt: skip
def test_a_slice_with_nonsense_is_set_aside_with_its_name_and_field(spec: Json, field: str) -> None:
    with pytest.raises(errors.InvalidObject) as raised:
        read_slice(**spec)
    assert (raised.value.kind, raised.value.name, raised.value.field) == ("ResourceSlice", "s", field)
    good = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "good"}, "spec": {}}
    bad = {**good, "metadata": {"name": "bad"}, "spec": spec}
    objects = cluster_dump.read_objects([bad, good])
    assert [resource_slice.name for resource_slice in objects.slices] == ["good"]
    assert [invalid.name for invalid in objects.set_aside] == ["bad"]


_REQUEST = "spec.devices.requests[0].exactly"


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        ("ResourceSlice", {"sharedCounters": [{"counters": "x"}]}, "spec.sharedCounters[0].counters"),
        ("ResourceSlice", {"sharedCounters": [{"counters": {"m": "x"}}]}, "spec.sharedCounters[0].counters[...]"),
        ("ResourceSlice", {"devices": [{"consumesCounters": [{"counters": 5}]}]},
         "spec.devices[0].consumesCounters[0].counters"),
        ("ResourceSlice", {"devices": [{"capacity": {"m": {"requestPolicy": "x"}}}]},
         "spec.devices[0].capacity[...].requestPolicy"),
        ("ResourceSlice", {"devices": [{"capacity": {"m": {"requestPolicy": {"validValues": 1}}}}]},
         "spec.devices[0].capacity[...].requestPolicy.validValues"),
        ("ResourceSlice", {"devices": [{"attributes": {"m": "x"}}]}, "spec.devices[0].attributes[...]"),
        ("ResourceClaim", {"devices": {"requests": [{"exactly": {"capacity": {"requests": "x"}}}]}},
         f"{_REQUEST}.capacity.requests"),
        ("ResourceClaim", {"devices": {"requests": [{"exactly": {"tolerations": [{"key": 5}]}}]}},
         f"{_REQUEST}.tolerations[0].key"),
        ("DeviceClass", {"selectors": [{"cel": "x"}]}, "spec.selectors[0].cel"),
    ],
)  # fmt: skip
def test_a_field_of_the_wrong_type_is_named_and_no_unexpected_error(kind: str, spec: Json, field: str) -> None:
    before = klog.UNEXPECTED_ERRORS.counts()
    bad = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": "bad"}, "spec": spec}
    [complaint] = cluster_dump.read_objects([bad]).set_aside
    assert (complaint.kind, complaint.name, complaint.field) == (kind, "bad", field)
    assert klog.UNEXPECTED_ERRORS.counts() == before


def test_a_claim_that_was_made_for_a_pod_is_known_once_the_pod_names_it() -> None:
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}
    assert read_pod(spec).claims == (facts.PodClaim("gpu", None, True, True, "pod", "u"),)
    status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "pod-gpu"}]}
    assert read_pod(spec, status).claims == (facts.PodClaim("gpu", "pod-gpu", True, True, "pod", "u"),)
    needless = {"resourceClaimStatuses": [{"name": "gpu"}]}
    assert read_pod(spec, needless).claims[0].claim == ""


def test_pods_that_name_the_same_claim_have_one_spec() -> None:
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]}
    assert read_pod(spec) is read_pod(spec)


def test_containers_that_start_the_pod_use_what_those_that_stay_will_use() -> None:
    def container(name: str, count: int, **more: Any) -> Json:
        return {"name": name, "resources": {"requests": {"a.com/x": str(count)}}, **more}

    spec = {
        "initContainers": [container("first", 5), container("sidecar", 1, restartPolicy="Always")],
        "containers": [container("main", 2), {"name": "plain"}],
    }
    assert read_pod(spec).extended == (
        facts.ExtendedRequest("container-0-request-0", "a.com/x", 2),
        facts.ExtendedRequest("container-1-request-0", "a.com/x", 1),
        facts.ExtendedRequest("container-2-request-0", "a.com/x", 2),
    )
    assert read_pod({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}).extended == ()


def allocated(*conditions: tuple[str, str] | None) -> dynamic_resources.ClaimAllocation:
    """A claim with a device for each condition, which is what its driver said of it; None: nothing."""
    results, statuses = [], []
    for number, said in enumerate(conditions):
        device = {"driver": "d", "pool": "p", "device": f"x{number}"}
        results.append({**device, "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]})
        if said is not None:
            statuses.append({**device, "conditions": [{"type": said[0], "status": said[1]}]})
    allocation = {"devices": {"results": results}, "allocationTimestamp": "1970-01-01T00:01:40Z"}
    status = {"allocation": allocation, "devices": statuses}
    json = {"metadata": {"name": "c", "namespace": "n"}, "spec": {}, "status": status}
    claim_allocation = dra.read_resource_claim(scheme.decode_as(resource.ResourceClaim, json)).allocation
    assert claim_allocation is not None
    return claim_allocation


@pytest.mark.parametrize(
    ("conditions", "has_failed", "waiting_since_s"),
    [
        ([("ready", "True"), ("ready", "True")], False, None),
        ([("ready", "True"), ("broken", "True")], True, None),
        ([("ready", "False"), ("broken", "True")], False, 100.0),
        ([None, ("broken", "True")], False, 100.0),
        ([("broken", "True"), None], True, None),
    ],
)
def test_the_first_device_that_is_not_ready_decides_for_a_claim(
    conditions: list[tuple[str, str] | None], has_failed: bool, waiting_since_s: float | None
) -> None:
    claim_allocation = allocated(*conditions)
    assert (claim_allocation.has_failed, claim_allocation.waiting_since_s) == (has_failed, waiting_since_s)
