"""When things were first seen on a test bed, and what its processes spend: by the monotonic clock."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.reaction_scenes import GROUP_LABEL
from testbed import bed
from windlass import clock
from windlass.kube import client, informers, resources, rest_config
from windlass.kube.models import meta
from windlass.kube.resources import Unstructured

_TICKS = os.sysconf("SC_CLK_TCK")


class Watcher:
    """What was seen of pods, groups and nodes, and when."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, float]] = {}
        """When each object was first seen in a state."""
        self.sizes: dict[str, list[tuple[float, int]]] = {}
        self.nodes: set[str] = set()
        """Those of groups, now."""
        self.counts: list[tuple[float, int]] = []
        """How many there were, since when."""

    def first(self, state: str) -> Mapping[str, float]:
        return self.seen.get(state, {})

    def see_pod(self, name: str, found: Unstructured | None) -> None:
        if found is None:
            return
        status = found.get("status", {})
        conditions = status.get("conditions") or ()
        self._note("pod created", name, True)
        unschedulable = any(
            item["type"] == "PodScheduled" and item.get("reason") == "Unschedulable" for item in conditions
        )
        self._note("pod unschedulable", name, unschedulable)
        self._note("pod bound", name, bool(found["spec"].get("nodeName")))
        self._note("pod running", name, status.get("phase") == "Running")

    def see_group(self, name: str, found: Unstructured | None) -> None:
        sizes = self.sizes.setdefault(name, [])
        size = int(found["spec"].get("replicas", 0)) if found else 0
        if not sizes or sizes[-1][1] != size:
            sizes.append((time.monotonic(), size))

    def see_node(self, name: str, found: Unstructured | None) -> None:
        if found is None:
            self.nodes.discard(name)
        elif GROUP_LABEL in found["metadata"].get("labels", {}):
            self.nodes.add(name)
        if not self.counts or self.counts[-1][1] != len(self.nodes):
            self.counts.append((time.monotonic(), len(self.nodes)))
        if found is not None:
            conditions = found.get("status", {}).get("conditions") or ()
            is_ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
            self._note("node registered", name, True)
            self._note("node ready", name, is_ready)
            self._note("node takes pods", name, is_ready and not found["spec"].get("taints"))

    def see_machine(self, name: str, found: Unstructured | None) -> None:
        status = (found or {}).get("status", {})
        self._note("machine made", name, found is not None)
        provisioned = (status.get("initialization") or {}).get("infrastructureProvisioned")
        self._note("machine provisioned", name, bool(provisioned))

    @property
    def resizes(self) -> list[float]:
        return sorted(at_s for sizes in self.sizes.values() for at_s, _ in sizes[1:])

    def node_seconds(self, begin_s: float, end_s: float) -> float:
        """Nodes times seconds between two moments."""
        total, count, since_s = 0.0, 0, begin_s
        for at_s, after in [*self.counts, (end_s, 0)]:
            if at_s > since_s:
                total += count * (min(at_s, end_s) - since_s)
                since_s = min(at_s, end_s)
            count = after
        return total

    def _note(self, state: str, name: str, holds: bool) -> None:
        if holds:
            self.seen.setdefault(state, {}).setdefault(name, time.monotonic())


See = Callable[[str, Unstructured | None], None]


class _Sink:
    def __init__(self, see: See) -> None:
        self._see = see

    def begin(self) -> None: ...

    def end(self) -> None: ...

    def set_aside(self, unreadable: resources.Unreadable[Unstructured]) -> None: ...

    def remove(self, metadata: meta.ObjectMeta) -> None:
        self._see(metadata.name or "", None)

    def put(self, metadata: meta.ObjectMeta, found: Unstructured) -> None:
        self._see(metadata.name or "", found)


@contextlib.asynccontextmanager
async def watching(found: bed.Bed, *, nodes: bool, machines: bool) -> AsyncIterator[Watcher]:
    """Someone who watches pods and groups. Nodes and Machines only if asked: watches are work for the control plane."""
    watcher, reach = Watcher(), rest_config.load_rest_config(clock.RealClock(), str(found.kubeconfig))
    kinds: list[tuple[resources.Resource[Any], See]] = [
        (resources.PODS, watcher.see_pod),
        (resources.MACHINE_DEPLOYMENTS, watcher.see_group),
        *([(resources.NODES, watcher.see_node)] if nodes else []),
        *([(resources.MACHINES, watcher.see_machine)] if machines else []),
    ]
    async with reach.connect() as server:
        api = client.Client(server, clock.RealClock(), client.ClientSettings(qps=0))
        every = [informers.Informer(api, kind.untyped(), _Sink(see)) for kind, see in kinds]
        following = [asyncio.create_task(informer.run()) for informer in every]
        try:
            for one in every:
                await one.wait_synced()
            yield watcher
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)


def busy_s() -> float:
    """CPU seconds that the whole machine has spent, on whatever it was. 0 where the system does not tell."""
    try:
        user, nice, system, *_ = (int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:])
    except OSError:
        return 0.0
    return (user + nice + system) / _TICKS


def spent_s(pid: int) -> float:
    """CPU seconds that a process has used. 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS
