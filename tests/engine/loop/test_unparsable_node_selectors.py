"""ResourceSlices and ResourceClaims with a node selector that kube-scheduler cannot parse.

Older API servers admitted label values that are rejected today. kube-scheduler fails on each node whose pools it
cannot determine, whichever slice a claim could be served from: no node is added that the pod could not use.
"""

import dataclasses
from typing import Any

import pytest

from tests.engine.dra.builders import GPU, asks, claim, gpus, wanted
from tests.engine.loop import test_dra
from tests.engine.loop.builders import BOTH, decide_once, pending, sizes
from windlass import scheduler_releases
from windlass.autoscaler import informer_sinks
from windlass.autoscaler.readers import dra
from windlass.engine.loop import Decision
from windlass.engine.model import dynamic_resources
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.snapshot.cluster_snapshot import Snapshot, build_snapshot
from windlass.kube import scheme
from windlass.kube.models import resource

Json = dict[str, Any]
BAD = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["not valid"]}]}]}
SHOWN = (
    "&NodeSelector{NodeSelectorTerms:[]NodeSelectorTerm{NodeSelectorTerm{MatchExpressions:[]NodeSelectorRequirement{"
    "NodeSelectorRequirement{Key:zone,Operator:In,Values:[not valid],},},MatchFields:[]NodeSelectorRequirement{},},},}"
)
INVALID = 'nodeSelectorTerms[0].matchExpressions[0].values[0][zone]: Invalid value: "not valid": a valid label must be'
GATHER = 'running "DynamicResources" filter plugin: gather pool information: failed to perform node selection for '
behaviors = pytest.mark.parametrize("settings", BOTH, ids=["cluster-autoscaler", "windlass"])


def read_slice(**spec: Any) -> dynamic_resources.ResourceSlice:
    """A slice of another driver, which no claim asks for."""
    pool = {"name": "fabric", "generation": 1, "resourceSliceCount": 1}
    body = {"metadata": {"name": "bad"}, "spec": {"driver": "other.example.com", "pool": pool, **spec}}
    return dra.read_resource_slice(scheme.decode_as(resource.ResourceSlice, body))


def observe(*offered: dynamic_resources.DeviceFact, release: str = "1.36") -> Observation:
    """A pod with a claim, one that needs a CPU, and a group whose nodes would have devices and CPUs for both."""
    plain = dataclasses.replace(pending("plain", 100), namespace="default")
    every = [GPU, claim("c-p", asks(wanted())), *offered]
    snapshot = build_snapshot([], [test_dra.waiting("p"), plain], offered=every)
    snapshot.devices.set_release(scheduler_releases.KNOWN_RELEASES[release])
    return Observation(snapshot, (test_dra.group(test_dra.template(1)),))


def told(decision: Decision) -> str:
    return str(decision.story)


@behaviors
@pytest.mark.parametrize("release", scheduler_releases.KNOWN_RELEASES)
def test_no_claim_is_allocated_while_a_slice_cannot_be_placed(settings: Settings, release: str) -> None:
    bad = read_slice(nodeSelector=BAD, devices=[{"name": "d"}])
    decision = decide_once(observe(bad, release=release), settings)
    assert sizes(decision) == {"g": 1}, "for the pod without a claim"
    assert f"{GATHER}slice bad: failed to parse node selector {SHOWN}: {INVALID}" in told(decision)
    assert [len(proposal.helped) for proposal in decision.story.scale_ups if proposal.helped] == [1]


@behaviors
@pytest.mark.parametrize(
    "spec",
    [
        {"nodeName": "n", "nodeSelector": BAD},
        {"allNodes": True, "nodeSelector": BAD},
        {"allNodes": True, "devices": [{"name": "d", "nodeSelector": BAD}]},
        {
            "perDeviceNodeSelection": True,
            "devices": [{"name": "c", "allNodes": True}, {"name": "d", "nodeSelector": BAD}],
        },
    ],
    ids=["named-node", "all-nodes", "device-not-asked", "earlier-device-matches"],
)
def test_a_selector_that_is_not_asked_does_no_harm(settings: Settings, spec: Json) -> None:
    decision = decide_once(observe(read_slice(**spec)), settings)
    assert [len(proposal.helped) for proposal in decision.story.scale_ups if proposal.helped] == [2]


@behaviors
def test_a_device_with_its_own_selector_counts_until_an_earlier_one_matches(settings: Settings) -> None:
    devices = [{"name": "c", "nodeName": "elsewhere"}, {"name": "d", "nodeSelector": BAD}]
    decision = decide_once(observe(read_slice(perDeviceNodeSelection=True, devices=devices)), settings)
    assert f"{GATHER}device d in slice bad: failed to parse node selector {SHOWN}: {INVALID}" in told(decision)


@pytest.mark.parametrize(("release", "fails"), [("1.36", False), ("1.37", True)])
def test_shared_counters_are_placed_in_1_37_only(release: str, fails: bool) -> None:
    bad = read_slice(nodeSelector=BAD, sharedCounters=[{"name": "c", "counters": {"m": {"value": "1"}}}])
    decision = decide_once(observe(bad, release=release))
    assert (GATHER in told(decision)) is fails


@behaviors
def test_a_claim_whose_allocation_cannot_be_placed_fails_its_pods(settings: Settings) -> None:
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}
    body = {
        "metadata": {"name": "c-p", "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
        "status": {"allocation": {"nodeSelector": BAD, "devices": {"results": [result]}}},
    }
    allocated = dra.read_resource_claim(scheme.decode_as(resource.ResourceClaim, body))
    observation = observe(allocated, gpus("n", 1))
    decision = decide_once(observation, settings)
    assert f'running PreFilter plugin "DynamicResources": {INVALID}' in told(decision)
    assert [len(proposal.helped) for proposal in decision.story.scale_ups if proposal.helped] == [1]


def test_the_slice_is_named_in_a_complaint_until_it_is_mended() -> None:
    sink = informer_sinks.device_sink(Snapshot(), dra.read_resource_slice, informer_sinks.ChangeBuffer())
    for selector, complains in ((BAD, True), (None, False)):
        spec = {"nodeSelector": selector} if selector else {"allNodes": True}
        body = {"metadata": {"name": "bad"}, "spec": spec}
        found = scheme.decode_as(resource.ResourceSlice, body)
        sink.put(found.meta, found)
        assert bool(sink.complaints) is complains
        for complaint in sink.complaints.values():
            assert (complaint.kind, complaint.name, complaint.field) == ("ResourceSlice", "bad", "spec.nodeSelector")
            assert "kube-scheduler can parse" in str(complaint)
