"""The story of the autoscaler: groups of each kind grow from nothing, a node is drained, and all of them shrink."""

import asyncio
import contextlib
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from testbed import api
from testbed.bed import Bed
from tests.e2e.autoscaler_process import FLAGS, Live
from tests.testbed.rbac import node_groups, service_accounts
from windlass import clock
from windlass.autoscaler import memory_store, rbac
from windlass.engine.model.durable_memory import DurableMemory
from windlass.kube import client, rest_config
from windlass.kube.rbac import RbacProfile, ServiceAccount
from windlass.observability import options

NS = rbac.SYSTEM_NAMESPACE
CORE = (rbac.AUTOSCALER, rbac.CLUSTER_API)
VIEWER = ServiceAccount("someone", NS)
_LEADING = (f"--namespace={NS}", "--leader-elect=true", "--record-duplicated-events")
"""Events are told again at once, not after five minutes."""
_WITHIN_S = 300.0
"""Five processes start at the same time, on two cores that others use as well."""


def prepare(bed: Bed) -> None:
    service_accounts.give(bed, *CORE, rbac.SHADOW, service_accounts.move(rbac.VIEWER, VIEWER, NS))
    node_groups.add_groups(bed)


@contextlib.contextmanager
def running(bed: Bed, directory: Path) -> Iterator[None]:
    """The autoscaler, and beside it one that only looks on: from before the first pod to its first verdicts."""
    with leading(bed, directory), _running(bed, directory, rbac.SHADOW, "--shadow", f"--namespace={NS}") as live:
        live.wait_looped()
        yield
        for name in ("verdicts_total", "nodes_total", "lead_seconds_count"):
            live.wait_metric(f"windlass_shadow_{name}")


def leading(bed: Bed, directory: Path, *flags: str) -> contextlib.AbstractContextManager[Live]:
    """The autoscaler."""
    return _running(bed, directory, rbac.AUTOSCALER, *_LEADING, *flags)


@contextlib.contextmanager
def _running(bed: Bed, directory: Path, profile: RbacProfile, *flags: str) -> Iterator[Live]:
    assert profile.account is not None
    live = Live(service_accounts.enter(bed, directory, profile.account), directory / f"{profile.name}.log", FLAGS)
    live.start(*flags)
    try:
        yield live
    finally:
        code = live.stop()
        print(live.log.read_text()[-6000:])
    assert code == 0


def begin(bed: Bed) -> None:
    node_groups.add_pods(bed, "never", 1, "deployment", "100")
    for name in node_groups.KINDS.values():
        node_groups.add_pods(bed, f"on-{name}", 2, name, "3")


def grow(bed: Bed) -> None:
    """Every group gets two nodes; those of one of them also have pods that are small."""
    for name in node_groups.KINDS.values():
        _wait(bed, f"on-{name}")
    node_groups.add_pods(bed, "few", 2, "deployment", "500m")
    _wait(bed, "few")
    for name in node_groups.KINDS.values():
        node_groups.take_pods(bed, f"on-{name}")


def shrink(bed: Bed) -> None:
    """Small pods are evicted from one of two nodes; all other nodes are empty."""
    wanted = {"deployment": 1, "set": 0, "pool": 0}
    api.wait_for("groups shrink", lambda: node_groups.replicas(bed), lambda now: now == wanted, _WITHIN_S)
    api.wait_for(
        "pods are together", lambda: node_groups.running(bed, "few"), lambda now: len(now) == 2 and len(set(now)) == 1
    )


@contextlib.contextmanager
def asking(bed: Bed, directory: Path) -> Iterator[None]:
    """Meanwhile someone asks what the next loop would do."""
    kubeconfig = service_accounts.enter(bed, directory, VIEWER)
    command = [sys.executable, "-m", "windlass", "plan", f"--kubeconfig={kubeconfig}", f"--namespace={NS}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as asked:
        yield
        assert asked.wait(180) == 0


def keep_much(bed: Bed, directory: Path) -> None:
    """Memory in as many ConfigMaps as it may take: written until each was made and replaced, and read by both."""
    assert rbac.AUTOSCALER.account is not None
    owner, viewer = (
        service_accounts.enter(bed, directory, service_account) for service_account in (rbac.AUTOSCALER.account, VIEWER)
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory_store, "MAX_PART_BYTES", 4500)
        asyncio.run(_keep_much(owner, viewer))


async def _keep_much(owner: Path, viewer: Path) -> None:
    time, name = clock.RealClock(), options.ObjectOptions().memory_config_map
    async with (
        rest_config.load_rest_config(time, str(owner)).connect() as writes,
        rest_config.load_rest_config(time, str(viewer)).connect() as reads,
    ):
        for number in range(4):  # two sets of parts take turns
            kept, seen = (
                memory_store.MemoryStore(client.Client(transport, time), NS, name, "keeper")
                for transport in (writes, reads)
            )
            await kept.read()
            chance = random.Random(number)
            since = {f"node-{chance.getrandbits(64):x}": chance.random() for _ in range(800)}
            durable = DurableMemory(scale_down=replace(DurableMemory().scale_down, since=since))
            await kept.write(durable)
            assert (await seen.read()).durable.scale_down.since.keys() == since.keys()
            assert kept.size_bytes > (memory_store.MAX_CONFIG_MAPS - 1) * memory_store.MAX_PART_BYTES


def _wait(bed: Bed, name: str) -> None:
    api.wait_for(f"{name} runs", lambda: node_groups.running(bed, name), lambda now: len(now) == 2, _WITHIN_S)
