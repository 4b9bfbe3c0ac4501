"""Utilization of one node from the requests of its pods. Recorded without a GPU configuration, to six digits."""

from dataclasses import replace

from tests.conformance import loop, objects
from tests.conformance.drain import seconds
from tests.conformance.outcome import Json, by_section
from windlass.engine.model import facts, well_known

DIGITS = 6


def _generated(case: Json, constants: Json) -> object:
    node = _without_gpus(objects.node(case["node"]))
    pods = [replace(objects.pod(pod), node_name=node.name) for pod in case["pods"]]
    settings = loop.choose(loop.PEER, "groups", ignore_daemonsets_utilization=case["skip_daemonset"])
    settings = loop.choose(settings, "scale_down", ignore_mirror_pods_utilization=case["skip_mirror"])
    observation = loop.observe([node], pods, [loop.make_group("group", [node])])
    measured = loop.probe(observation, settings, now_s=seconds(case["now"])).eligibility.utilization_of(node.name)
    if measured is None:
        shown = dict(node.allocatable)
        missing = next(name for name in (facts.CPU, facts.MEMORY) if not shown.get(name))
        return f"node {node.name}: status.allocatable[{missing}] is missing or 0"
    return {
        "cpu": round(measured.cpu, DIGITS),
        "memory": round(measured.memory, DIGITS),
        "resource": measured.resource,
        "utilization": round(measured.utilization, DIGITS),
    }


def _without_gpus(node: facts.Node) -> facts.Node:
    """The node as Cluster Autoscaler took it when nothing told it that there are GPUs."""
    allocatable = tuple(item for item in node.allocatable if item[0] not in well_known.GPU_RESOURCES)
    labels = {key: value for key, value in node.labels.items() if key != well_known.CLUSTER_API_GPU_LABEL}
    return loop.complete(replace(node, allocatable=allocatable, labels=labels))


run = by_section({"generated": _generated})
