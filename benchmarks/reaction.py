"""How soon an autoscaler reacts, on the real test bed: scheduler, Cluster API and KWOK nodes that boot in 5 s.

`burst`   one group, twenty pods
`zones`   300 pods of 500m over three balanced zones of four-core nodes, from one node each
`kinds`   three kinds of pods that need three groups, two of them at zero
`groups`  60 groups, 57 at zero, ten pods that only one of them fits
`down`    `zones`, then back down to 60 pods, with scale-down times of 20 s (only if it is asked for)

Of each: from the last pod marked unschedulable to the last resize (`resize`), how many resizes there were (`steps`),
and until all pods run since they were created (`running`). Seconds. `others_cpu` is what everything else on the machine
spent meanwhile: figures are comparable if that is little. Of `down`: from the moment when pods went until the
last node did (`down`), how many nodes are left (`down_nodes`), and what all cost in ten minutes (`down_node_seconds`).

In the environment: `ONLY=burst,kinds` names some of them, `PEER=file` is a binary of Cluster Autoscaler to be measured
instead, `LOG=file` keeps what the autoscaler says, and `TIMELINE=file` when what happened, and what each process spent.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.reaction_scenes import SCENARIOS, Scenario
from benchmarks.reaction_watching import Watcher, busy_s, spent_s, watching
from testbed import bed, clusterapi, processes, sharing, site

USUAL = ("burst", "zones", "kinds", "groups")
_BED = site.Choice(scheduler=True, kwok=True, capi=True, capi_v1beta1=False)
"""Nobody here speaks v1beta1, neither we nor the peer."""
_PATIENCE_S = 180.0
_DOWN_S = 600.0
"""How long a scale-down is watched, at most, and what its nodes are counted over."""
_STILL_S = 120.0
"""A scale-down is over when no node has gone for so long."""


@contextmanager
def autoscaling(found: bed.Bed, flags: Sequence[str]) -> Iterator[int]:
    """The autoscaler at work, by its process id."""
    peer = os.environ.get("PEER")
    program = [peer] if peer else [sys.executable, "-m", "windlass", "autoscaler"]
    command = [*program, "--cloud-provider=clusterapi", f"--kubeconfig={found.kubeconfig}"]
    with open(os.environ.get("LOG", os.devnull), "a") as log:
        process = subprocess.Popen([*command, "--address=127.0.0.1:0", *flags], stdout=log, stderr=log)
        try:
            _wait_for_status(found)
            yield process.pid
        finally:
            process.terminate()
            process.wait()


def _wait_for_status(found: bed.Bed) -> None:
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        maps = found.api.get("/api/v1/namespaces/kube-system/configmaps")["items"]
        status = [item for item in maps if item["metadata"]["name"] == "cluster-autoscaler-status"]
        if status and "Running" in status[0].get("data", {}).get("status", ""):
            return
        time.sleep(0.2)
    raise TimeoutError("the autoscaler did not begin")


async def play(found: bed.Bed, scenario: Scenario, pids: Mapping[str, int]) -> dict[str, float]:
    timeline = os.environ.get("TIMELINE", "")
    wanted = sum(work.pods for work in scenario.works)
    nodes = bool(timeline) or scenario.down_to is not None
    async with watching(found, nodes=nodes, machines=bool(timeline)) as watcher:
        began_s, before_s, before = time.monotonic(), busy_s(), {name: spent_s(pid) for name, pid in pids.items()}
        for work in scenario.works:
            await asyncio.to_thread(found.api.add, work.make())
        while len(watcher.first("pod running")) < wanted and time.monotonic() < began_s + _PATIENCE_S:
            await asyncio.sleep(0.05)
        if timeline:
            Path(timeline).write_text("\n".join(_report(watcher, began_s, pids, before)) + "\n")
        told = _evaluate(watcher, began_s, wanted)
        told["others_cpu"] = busy_s() - before_s - sum(spent_s(pid) - before[name] for name, pid in pids.items())
        if scenario.down_to is not None:
            told |= await _go_down(found, watcher, scenario, scenario.down_to)
    return told


def _evaluate(watcher: Watcher, began_s: float, wanted: int) -> dict[str, float]:
    running = watcher.first("pod running")
    steps = max(len(sizes) - 1 for sizes in watcher.sizes.values())
    if len(running) < wanted or not steps:
        return {"running_pods": len(running), "steps": steps}
    return {
        "resize": watcher.resizes[-1] - max(watcher.first("pod unschedulable").values()),
        "first_resize": watcher.resizes[0] - began_s,
        "steps": steps,
        "nodes": sum(sizes[-1][1] for sizes in watcher.sizes.values()),
        "running": max(running.values()) - began_s,
    }


async def _go_down(found: bed.Bed, watcher: Watcher, scenario: Scenario, pods: int) -> dict[str, float]:
    began_s = time.monotonic()
    await asyncio.to_thread(found.api.merge, scenario.works[0].path, {"spec": {"replicas": pods}})
    while time.monotonic() < min(began_s + _DOWN_S, max(began_s, watcher.counts[-1][0]) + _STILL_S):
        await asyncio.sleep(0.5)
    return {
        "down": watcher.counts[-1][0] - began_s,
        "down_nodes": len(watcher.nodes),
        "down_node_seconds": watcher.node_seconds(began_s, began_s + _DOWN_S),
    }


def _report(watcher: Watcher, began_s: float, pids: Mapping[str, int], before: Mapping[str, float]) -> Iterator[str]:
    for name, sizes in watcher.sizes.items():
        yield f"{name}: " + ", ".join(f"{size} at {at_s - began_s:.2f} s" for at_s, size in sizes[1:])
    for state, seen in sorted(watcher.seen.items(), key=lambda one: max(one[1].values())):
        at_s = sorted(moment - began_s for moment in seen.values() if moment >= began_s)
        if at_s:
            spread = " ".join(f"{at_s[int(share * (len(at_s) - 1))]:6.2f}" for share in (0.0, 0.25, 0.5, 0.75, 1.0))
            yield f"{state:20} {len(at_s):4} of them, first, quarters and last after {spread} s"
    for name, pid in pids.items():
        yield f"{name:24} {spent_s(pid) - before[name]:6.2f} s of CPU"


def measure(scenario: Scenario) -> dict[str, float]:
    with sharing.alone(_BED) as found:
        clusterapi.add_cluster(found.api, found.kubeconfig)
        for group in scenario.groups:
            for body in group.make():
                found.api.add(body)
        wanted = 1 + sum(group.replicas for group in scenario.groups)
        while len(found.api.get("/api/v1/nodes")["items"]) < wanted:
            time.sleep(0.2)
        time.sleep(scenario.settle_s)
        with autoscaling(found, scenario.flags) as autoscaler:
            pids = {process.name: process.pid for process in processes.alive(found.site.directory)}
            return asyncio.run(play(found, scenario, {**pids, "autoscaler": autoscaler, "watching": os.getpid()}))


def run() -> dict[str, Any]:
    only = os.environ.get("ONLY", ",".join(USUAL)).split(",")
    return {f"{name}_{key}": round(value, 3) for name in only for key, value in measure(SCENARIOS[name]).items()}
