"""0 → 500 nodes for 4,000 pods with a claim each, 8 devices to a node: the peer's BenchmarkRunOnceScaleUpDRA.

CPU and memory would do for twice as many pods a node, so that devices decide.
"""

import dataclasses

from benchmarks import clusters, loops
from windlass.engine import loop
from windlass.engine.model import dynamic_resources, facts, plan
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation

NODES, PER_NODE = 500, 8
DRIVER, CLASS = "gpu.nvidia.com", "default-class"


def run() -> dict[str, float]:
    devices = tuple(dynamic_resources.Device(f"gpu-{number}") for number in range(PER_NODE))
    reach = dynamic_resources.NodeReach(node_name="n-template")
    pool = dynamic_resources.ResourceSlice("rs-template", DRIVER, "n-template", reach=reach, devices=devices)
    template = dataclasses.replace(clusters.node(0, 10_000, 100 * clusters.GIB), slices=(pool,))
    count = NODES * PER_NODE
    pods = [_pod(number) for number in range(count)]
    observation, ingest_seconds = loops.observe([], pods, [loops.group("a", [], template, 2_000)])
    observation.snapshot.devices.inventory.put(dynamic_resources.DeviceClass(CLASS))
    observation.snapshot.devices.inventory.put_all(_claim(number) for number in range(count))
    seconds, decision = loops.best(3, lambda: _decide(observation))
    added = sum(
        instruction.to_size - instruction.from_size
        for instruction in decision.plan
        if isinstance(instruction, plan.Resize)
    )
    return {"seconds": seconds, "seconds_with_ingest": seconds + ingest_seconds, "nodes": added}


def _decide(observation: Observation) -> tuple[float, loop.Decision]:
    """A whole loop after a claim changed: nothing that was found for devices before is any use."""
    observation.snapshot.devices.inventory.put(dynamic_resources.DeviceClass(CLASS))
    return loops.decide_once(observation, Settings())


def _pod(number: int) -> facts.Pod:
    requests = clusters.requests(10_000 // (2 * PER_NODE), 100 * clusters.GIB // (2 * PER_NODE))
    spec = facts.PodSpec(requests=requests, claims=(facts.PodClaim(f"claim-{number}", f"claim-{number}"),))
    since_s = loops.NOW_S - 60
    return facts.Pod(
        "default", f"pod-{number}", f"uid-{number}", spec=spec, digest=f"{number}", unschedulable_since_s=since_s,
        created_s=since_s,
    )  # fmt: skip


def _claim(number: int) -> dynamic_resources.ResourceClaim:
    wanted = dynamic_resources.ExactDeviceRequest("req-0", CLASS, (f'device.driver == "{DRIVER}"',))
    spec = dynamic_resources.ClaimSpec((dynamic_resources.DeviceRequest("req-0", wanted),))
    return dynamic_resources.ResourceClaim("default", f"claim-{number}", f"claim-{number}", spec=spec)
