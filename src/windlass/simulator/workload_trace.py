"""Workload traces: pods and machine types from CSV files, plain or gzipped, replayed as Jobs of one pod each.

pods    name, cpu_milli, memory_mib, num_gpu, gpu_spec, creation_time, deletion_time, scheduled_time
nodes   sn, cpu_milli, memory_mib, gpu, model

Times are seconds since the beginning of the trace. A pod without a scheduled time is taken to have run from its
creation. `gpu_spec` lists the accepted models, separated by `|`. Other columns are ignored. Mistakes are reported with
file, line and column. The machine types become node groups; each pod runs as long as it was recorded.
"""

import csv
import gzip
import pathlib
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from windlass import errors, input_files
from windlass.simulator.cluster import api_client
from windlass.simulator.cluster.node_groups import DelayDistribution
from windlass.simulator.cluster.node_lifecycle import RUN, format_delay
from windlass.simulator.cluster.simulated_cluster import SimulatedCluster
from windlass.simulator.scenario import manifests, model


@dataclass(frozen=True, slots=True)
class TracePod:
    """One pod of the trace."""

    name: str
    millicpu: int
    memory_mib: int
    gpus: int
    gpu_models: tuple[str, ...]
    """Accepted GPU models; empty: any."""
    created_s: float
    lasts_s: float


@dataclass(frozen=True, slots=True, order=True)
class MachineType:
    """A type of machines."""

    millicpu: int
    memory_mib: int
    gpus: int
    gpu_model: str

    @property
    def name(self) -> str:
        gpus = f"-{self.gpus}x{self.gpu_model.lower()}" if self.gpus else ""
        return f"m{self.millicpu // 1000}-{self.memory_mib // 1024}{gpus}"


@dataclass(frozen=True, slots=True)
class Trace:
    """A recorded workload."""

    pods: tuple[TracePod, ...]
    """Pods in order of arrival."""
    machines: tuple[tuple[MachineType, int], ...]
    """Number of machines of the recorded cluster by type."""

    @property
    def machine_count(self) -> int:
        return sum(count for _, count in self.machines)

    @property
    def lasts_s(self) -> float:
        """Until the last pod arrives. Some pods run months longer than all others; the run does not wait for them."""
        return self.pods[-1].created_s if self.pods else 0.0


class InvalidTrace(errors.InvalidInput):
    """An unusable trace."""


def load_trace(pods: pathlib.Path, nodes: pathlib.Path, compress: float = 1.0) -> Trace:
    """Read a trace; its pods arrive `compress` times as fast, and run as long as recorded."""
    if compress <= 0:
        raise InvalidTrace(f"--compress: found {compress:g}, accepted is a number above zero")
    trace_pods = [_read_pod(row, compress) for row in _read_rows(pods)]
    machines = Counter(_read_machine(row) for row in _read_rows(nodes))
    return Trace(tuple(sorted(trace_pods, key=lambda pod: (pod.created_s, pod.name))), tuple(sorted(machines.items())))


@dataclass(frozen=True, slots=True)
class _Row:
    file: str
    line: int
    cells: dict[str, str]

    def text(self, column: str) -> str:
        if column not in self.cells or self.cells[column] is None:
            raise InvalidTrace(f"{self.file}:{self.line}: {column}: found nothing, accepted is a value")
        return self.cells[column]

    def number(self, column: str) -> float:
        text = self.text(column)
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 <= number < float("inf"):
            raise InvalidTrace(
                f"{self.file}:{self.line}: {column}: found {text!r}, accepted is a number of zero or more"
            )
        return number


def _read_rows(path: pathlib.Path) -> Iterator[_Row]:
    try:
        raw = input_files.read_bytes(path)
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InvalidTrace(f"{path}: {error}") from None
    for i, cells in enumerate(csv.DictReader(text.splitlines())):
        yield _Row(str(path), i + 2, cells)


def _read_pod(row: _Row, compress: float) -> TracePod:
    created_s, deleted_s = row.number("creation_time"), row.number("deletion_time")
    began_s = row.number("scheduled_time") if row.cells.get("scheduled_time") else created_s
    if deleted_s < began_s:
        raise InvalidTrace(
            f"{row.file}:{row.line}: deletion_time: found {deleted_s:g}, accepted is {began_s:g} or later"
        )
    return TracePod(
        row.text("name"),
        int(row.number("cpu_milli")),
        int(row.number("memory_mib")),
        int(row.number("num_gpu")),
        tuple(filter(None, row.text("gpu_spec").split("|"))),
        round(created_s / compress, 3),
        deleted_s - began_s,
    )


def _read_machine(row: _Row) -> MachineType:
    millicpu, memory_mib, gpus = (int(row.number(column)) for column in ("cpu_milli", "memory_mib", "gpu"))
    return MachineType(millicpu, memory_mib, gpus, row.text("model"))


Json = dict[str, Any]

GPU = "nvidia.com/gpu"

GPU_MODEL = "cluster-api/accelerator"

_PER_CORE, _PER_GIB = 0.03, 0.004

_PER_GPU = {"T4": 0.35, "P100": 0.7, "V100M16": 1.2, "V100M32": 1.5, "G2": 0.9, "G3": 1.6, "A10": 1.0}

_PER_OTHER_GPU = 1.0
"""Assumed prices per hour, in proportion to those of clouds; the trace has none."""

_MOST_SAMPLES = 2000

_RUN_ON_S = 6 * 3600.0
"""Time of the run after the last arrival."""


def make_scenario(trace: Trace, name: str, seed: int = 0, **flags: str | int | float | bool) -> model.Scenario:
    """A scenario without workloads: groups between 0 and the size of the recorded cluster."""
    duration_s = trace.lasts_s + _RUN_ON_S
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
    """Creates the pods of a trace at their recorded times."""

    def __init__(self, trace: Trace, cluster: SimulatedCluster) -> None:
        self._pods, self._cluster = trace.pods, cluster
        self._next = 0

    def start(self) -> None:
        self._await_next()

    def _await_next(self) -> None:
        """Schedule a timer for the next pod only."""
        if self._next < len(self._pods):
            wait_s = max(self._pods[self._next].created_s - self._cluster.event_loop.now_s(), 0.0)
            self._cluster.event_loop.call_later(wait_s, self._hand_in)

    def _hand_in(self) -> None:
        pod = self._pods[self._next]
        self._next += 1
        self._cluster.api.post(api_client.JOBS, make_trace_job(pod))
        self._await_next()


def make_trace_job(pod: TracePod) -> Json:
    """A Job for one pod. It may not be evicted, because the recorded pod was not."""
    amounts = {"cpu": f"{pod.millicpu}m", "memory": f"{pod.memory_mib}Mi", **({GPU: str(pod.gpus)} if pod.gpus else {})}
    resources: Json = {"requests": amounts}
    if pod.gpus:
        resources["limits"] = {GPU: str(pod.gpus)}
    spec: Json = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "registry.example/main:1", "resources": resources}],
    }
    if pod.gpus and pod.gpu_models:
        desired = {"key": GPU_MODEL, "operator": "In", "values": list(pod.gpu_models)}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [desired]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    annotations = {RUN: format_delay(DelayDistribution(pod.lasts_s)), manifests.SAFE_TO_EVICT_ANNOTATION: "false"}
    return {
        "metadata": {"name": pod.name, "namespace": "default"},
        "spec": {
            "ttlSecondsAfterFinished": manifests.JOB_TTL_S,
            "template": {"metadata": {"labels": {"app": "trace"}, "annotations": annotations}, "spec": spec},
        },
    }
