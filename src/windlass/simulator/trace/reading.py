"""Reading a trace: a CSV of pods and a CSV of machines, plain or gzipped. Mistakes are told with file, line and column.

pods    name, cpu_milli, memory_mib, num_gpu, gpu_spec, creation_time, deletion_time, scheduled_time
nodes   sn, cpu_milli, memory_mib, gpu, model

Times are seconds since the beginning of the trace. A pod without a scheduled time is taken to have run from its
creation. `gpu_spec` lists the models that a pod accepts, separated by `|`. Other columns are passed over.
"""

import csv
import gzip
import pathlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from windlass import errors


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of the trace."""

    name: str
    millicpu: int
    memory_mib: int
    gpus: int
    gpu_models: tuple[str, ...]
    """The only models that it accepts; empty: any."""
    comes_s: float
    lasts_s: float


@dataclass(frozen=True, slots=True, order=True)
class MachineType:
    """Machines that are alike."""

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
    """What was recorded."""

    pods: tuple[Pod, ...]
    """In the order in which they came."""
    machines: tuple[tuple[MachineType, int], ...]
    """Types, and how many the recorded cluster had of each."""

    @property
    def machine_count(self) -> int:
        return sum(count for _, count in self.machines)

    @property
    def lasts_s(self) -> float:
        """Until the last pod comes. Some outlast all others by months; nobody waits for these."""
        return self.pods[-1].comes_s if self.pods else 0.0


class BadTrace(errors.InvalidInput):
    """A trace that cannot be played."""


def load(pods: pathlib.Path, nodes: pathlib.Path, compress: float = 1.0) -> Trace:
    """A trace whose pods come `compress` times as fast, and last as long as they did."""
    if compress <= 0:
        raise BadTrace(f"--compress: found {compress:g}, accepted is a number above zero")
    found = [_read_pod(row, compress) for row in _rows(pods)]
    machines = Counter(_read_machine(row) for row in _rows(nodes))
    return Trace(tuple(sorted(found, key=lambda pod: (pod.comes_s, pod.name))), tuple(sorted(machines.items())))


@dataclass(frozen=True, slots=True)
class _Row:
    file: str
    line: int
    cells: dict[str, str]

    def text(self, column: str) -> str:
        if column not in self.cells or self.cells[column] is None:
            raise BadTrace(f"{self.file}:{self.line}: {column}: found nothing, accepted is a value")
        return self.cells[column]

    def number(self, column: str) -> float:
        text = self.text(column)
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 <= number < float("inf"):
            raise BadTrace(f"{self.file}:{self.line}: {column}: found {text!r}, accepted is a number of zero or more")
        return number


def _rows(path: pathlib.Path) -> Iterator[_Row]:
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BadTrace(f"{path}: {error}") from None
    for i, cells in enumerate(csv.DictReader(text.splitlines())):
        yield _Row(str(path), i + 2, cells)


def _read_pod(row: _Row, compress: float) -> Pod:
    created_s, deleted_s = row.number("creation_time"), row.number("deletion_time")
    began_s = row.number("scheduled_time") if row.cells.get("scheduled_time") else created_s
    if deleted_s < began_s:
        raise BadTrace(f"{row.file}:{row.line}: deletion_time: found {deleted_s:g}, accepted is {began_s:g} or later")
    return Pod(
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
