"""Playing a trace: its machine types as node groups, its pods as Jobs of one pod each that run as long as they did."""

from typing import Any

from windlass.simulator.scenario import model, workloads
from windlass.simulator.trace.reading import MachineType, Pod, Trace
from windlass.simulator.world import kinds
from windlass.simulator.world.chance import Delay
from windlass.simulator.world.kubelets import RUN, spell_delay
from windlass.simulator.world.world import World

Json = dict[str, Any]

GPU = "nvidia.com/gpu"
GPU_MODEL = "cluster-api/accelerator"

_PER_CORE, _PER_GIB = 0.03, 0.004
_PER_GPU = {"T4": 0.35, "P100": 0.7, "V100M16": 1.2, "V100M32": 1.5, "G2": 0.9, "G3": 1.6, "A10": 1.0}
_PER_OTHER_GPU = 1.0
"""Invented prices per hour, in proportion to what clouds ask; the trace has none."""
_MOST_SAMPLES = 2000
_AFTERWARDS_S = 6 * 3600.0
"""How long the story goes on after the last pod came."""


def make_scenario(trace: Trace, name: str, seed: int = 0, **flags: str | int | float | bool) -> model.Scenario:
    """A story without workloads of its own: groups that may be as large as the recorded cluster, and can be empty."""
    duration_s = trace.lasts_s + _AFTERWARDS_S
    return model.Scenario(
        name=name,
        seed=seed,
        duration=model.Seconds(duration_s),
        sample=model.Seconds(max(60.0, round(duration_s / _MOST_SAMPLES))),
        flags=flags,
        groups=tuple(_make_group(type_, count) for type_, count in trace.machines),
    )


def _make_group(type_: MachineType, count: int) -> model.Group:
    capacity: model.Amounts = {"cpu": f"{type_.millicpu}m", "memory": f"{type_.memory_mib}Mi"}
    if type_.gpus:
        capacity[GPU] = type_.gpus
    price = type_.millicpu / 1000 * _PER_CORE + type_.memory_mib / 1024 * _PER_GIB
    price += type_.gpus * _PER_GPU.get(type_.gpu_model, _PER_OTHER_GPU)
    return model.Group(
        name=type_.name,
        capacity=capacity,
        max=count,
        price=round(price, 4),
        labels={GPU_MODEL: type_.gpu_model} if type_.gpus else {},
    )


class TracePlayer:
    """Hands in the pods of a trace when their time comes."""

    def __init__(self, trace: Trace, world: World) -> None:
        self._pods, self._world = trace.pods, world
        self._next = 0

    def start(self) -> None:
        self._await_next()

    def _await_next(self) -> None:
        """Only the next pod is on the agenda, not all that will ever come."""
        if self._next < len(self._pods):
            wait_s = max(self._pods[self._next].comes_s - self._world.pulse.now_s(), 0.0)
            self._world.pulse.later(wait_s, self._hand_in)

    def _hand_in(self) -> None:
        pod = self._pods[self._next]
        self._next += 1
        self._world.api.post(kinds.JOBS, make_job(pod))
        self._await_next()


def make_job(pod: Pod) -> Json:
    """A Job for one pod. It may not be evicted: what was recorded ran through."""
    amounts = {"cpu": f"{pod.millicpu}m", "memory": f"{pod.memory_mib}Mi", **({GPU: str(pod.gpus)} if pod.gpus else {})}
    resources: Json = {"requests": amounts}
    if pod.gpus:
        resources["limits"] = {GPU: str(pod.gpus)}
    spec: Json = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "registry.example/main:1", "resources": resources}],
    }
    if pod.gpus and pod.gpu_models:
        wanted = {"key": GPU_MODEL, "operator": "In", "values": list(pod.gpu_models)}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    annotations = {RUN: spell_delay(Delay(pod.lasts_s)), workloads.SAFE_TO_EVICT: "false"}
    return {
        "metadata": {"name": pod.name, "namespace": "default"},
        "spec": {
            "ttlSecondsAfterFinished": workloads.JOB_TTL_S,
            "template": {"metadata": {"labels": {"app": "trace"}, "annotations": annotations}, "spec": spec},
        },
    }
