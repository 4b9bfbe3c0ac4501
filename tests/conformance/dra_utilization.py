"""Utilization of a node that publishes devices: of each pool, and of the one that counts."""

from collections.abc import Mapping

from tests.conformance import loop, objects
from tests.conformance.outcome import Json, by_section
from windlass.autoscaler.readers import dra
from windlass.engine.model import dynamic_resources
from windlass.engine.scale_down import utilization
from windlass.kube import scheme
from windlass.kube.models import resource

DIGITS = 6


def _generated(case: Json, constants: Json) -> object:
    node = loop.complete(objects.node(case["node"]))
    slices = [dra.read_resource_slice(scheme.decode_as(resource.ResourceSlice, item)) for item in case["slices"]]
    claims = [
        dra.read_resource_claim(scheme.decode_as(resource.ResourceClaim, entry))
        for pod in case["pods"]
        for entry in pod["claims"]
    ]
    offered: list[dynamic_resources.DeviceFact] = [*slices, *claims]
    pods = [objects.pod(one["pod"]) for one in case["pods"]]
    observation = loop.observe([node], pods, [loop.make_group("group", [node])], offered)
    node_utilization = loop.probe(observation, loop.PEER).eligibility.utilization_of(node.name)
    pools = utilization.measure_pool_utilization(observation.snapshot, observation.snapshot.nodes.rows[node.name])
    if node_utilization is None or not isinstance(pools, Mapping):
        return {"error": True, "pools_error": True}
    told: dict[str, object] = {
        "dynamic": round(node_utilization.devices, DIGITS),
        "pools": {str(id): round(used, DIGITS) for id, used in pools.items()},
        "utilization": round(node_utilization.utilization, DIGITS),
    }
    if "resource" in case["expect"]:
        told["resource"] = node_utilization.resource  # where pools tie, any of them may be named
    return told


run = by_section({"generated": _generated})
