"""Everything odd that one tenant can write, all at once: the others get their nodes, and each odd object is named."""

import asyncio
import random
import re
import urllib.error
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.malformed_input import harness, malform
from tests.malformed_input.objects import CAPACITY, KINDS, SIMPLE_POD, SIZE, TENANT, Json, Kind

PATIENT = harness.Settings(health_within_s=30.0, may_pause=True, patience_s=180.0)
"""No time is asserted here: the machine may be busy."""
ERRORS = {
    "overflow": 'quantity("1e10000").asApproximateFloat() > 1.0',
    "infinite": '[1,2][dyn(double("inf"))] == 1',
    "divided": "[1,2][dyn(1.0/0.0)] == 1",
    "unhashable": "{dyn([1]): 1}.size() == 1",
    "versions": 'semver("1.2.3-' + "9" * 5000 + '") == semver("1.2.3")',
}
"""Expressions that Kubernetes admits, and that are hard to evaluate."""

FAILING = ("infinite", "divided", "versions")
"""Those of them that fail in Kubernetes as well; the others only select what they select."""

SET_ASIDE = (
    ("ResourceClaim", "deep"),
    *(("ResourceClaim", name) for name in FAILING),
    ("Pod", "enormous"),
    ("Pod", "greater"),
    ("Pod", "tolerant"),
    ("MachineDeployment", "digits"),
)
"""Objects that are not used as they are."""


def find_kind(name: str) -> Kind:
    return next(kind for kind in KINDS if kind.kind == name)


CLAIM, CLASS, SLICE = (find_kind(name) for name in ("ResourceClaim", "DeviceClass", "ResourceSlice"))
DEPLOYMENT = find_kind("MachineDeployment")


def make(kind: Kind, name: str, body: Json, **metadata: Any) -> harness.Item:
    made: Json = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}
    made |= {"namespace": kind.namespace} if kind.namespace else {}
    obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {**made, **metadata}, **body}
    # What is nested deeper than the embedded server reads is injected, as a real server would have sent it.
    return harness.Item.of(kind, obj)


def make_pod(name: str, claim: str = "", cpu: str = "1", **spec: Any) -> harness.Item:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    body: Json = {"containers": [container], **spec}
    if claim:
        body["resourceClaims"] = [{"name": "g", "resourceClaimName": claim}]
    return make(SIMPLE_POD, name, {"spec": body})


def make_claim(name: str, expression: str = "true", parameters: Any = None) -> harness.Item:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    request = {"name": "r", "exactly": {**exactly, "selectors": [{"cel": {"expression": expression}}]}}
    devices: Json = {"requests": [request]}
    if parameters is not None:
        devices["config"] = [{"opaque": {"driver": "gpu.example.com", "parameters": parameters}}]
    return make(CLAIM, name, {"spec": {"devices": devices}})


def make_everything(node: str) -> list[harness.Item]:
    """All of it, where this node has a device."""
    is_gpu = 'device.driver == "gpu.example.com"'
    device = {"name": "g0", "attributes": {"model": {"string": "a" * 40}}}
    slice_spec = {"driver": "gpu.example.com", "devices": [device]}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    term = {"key": "zone", "operator": "Gt", "values": ["v3"]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}
    annotations = {f"{SIZE}min-size": "9" * 4400, f"{SIZE}max-size": "5", f"{CAPACITY}cpu": "4"}
    return [
        make(CLASS, "gpu", {"spec": {"selectors": [{"cel": {"expression": is_gpu}}]}}),
        make(SLICE, "devices", {"spec": {**slice_spec, "nodeName": node, "pool": pool}}),
        make_claim("backtracking", 'device.attributes["gpu.example.com"].model.matches("^(a+)+$b")'),
        make_pod("backtracking", "backtracking"),
        make_claim("deep", parameters=malform.nested(2000)),
        make_pod("deep", "deep"),
        *(make_claim(name, expression) for name, expression in ERRORS.items()),
        *(make_pod(name, name) for name in ERRORS),
        make_pod("enormous", cpu="1e5000"),
        make_pod("greater", affinity={"nodeAffinity": required}),
        make_pod("tolerant", tolerations=[{"key": "zone", "operator": "Gt", "value": "3"}]),
        make(DEPLOYMENT, "digits", {"spec": {"clusterName": "work", "replicas": 0}}, annotations=annotations),
    ]  # fmt: skip


async def explain(process: harness.Autoscaler, path: str) -> str:
    """What /explain says of an object, or why it says nothing."""
    try:
        return await process.get(path)
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return error.read().decode()


async def play(directory: Path) -> None:
    async with harness.bench(directory, harness.FLAGS) as bench:
        run = harness.Run(bench, random.Random(1), PATIENT)
        run.begin()
        try:
            await bench.cluster.scale(TENANT, 1)
            async with asyncio.timeout(PATIENT.patience_s):
                while not bench.cluster.usable(TENANT):
                    await asyncio.sleep(0.2)
            [node] = bench.cluster.usable(TENANT)
            items = make_everything(node)
            await run.feed(items)
            for _ in range(3):
                await run.ask_for_node()
            await run.wait_loops(2)
            await run.hold()
            await check_named(bench, items)
        finally:
            run.stop()


async def check_named(bench: harness.Bench, items: list[harness.Item]) -> None:
    """Each object that is not used as it is appears in the log, in a metric and in explain; each pod in explain."""
    expected = {f"{kind} {TENANT}/{name}" for kind, name in SET_ASIDE}

    counts = Counter(kind for kind, _ in SET_ASIDE)

    async def find_unlogged() -> str:
        log = bench.process.log.read_text(errors="replace")
        return " ".join(sorted(expected - {*re.findall(r"set aside invalid object: error=(\S+ \S+):", log)}))

    async def find_uncounted() -> str:
        metrics = await bench.process.metrics()
        counted = {kind: metrics.get(f'windlass_set_aside_objects{{kind="{kind}"}}', 0.0) for kind in counts}
        return " ".join(f"{kind}: {found}" for kind, found in counted.items() if found < counts[kind])

    for look in (find_unlogged, find_uncounted):
        await wait_until(look, lambda missing: missing == "")
    for item in items:
        if item.kind is SIMPLE_POD:
            texts = [f'"name":"{item.name}"', '"state":']
            if ("Pod", item.name) in SET_ASIDE:
                texts.append(f'"complaint":"Pod {TENANT}/{item.name}: spec.')
            await wait_explained(bench.process, f"pod/{TENANT}/{item.name}", *texts)
    for name in FAILING:
        said = f"claim {TENANT}/{name}: selector #0: CEL runtime error"
        await wait_explained(bench.process, f"pod/{TENANT}/{name}", said)
    await wait_explained(bench.process, f"group/MachineDeployment/{TENANT}/digits", "min-size")


async def wait_until(look: Callable[[], Awaitable[str]], until: Callable[[str], bool]) -> None:
    """Objects come by watches of their own, each at its time."""
    seen = ""
    try:
        async with asyncio.timeout(PATIENT.patience_s):
            while not until(seen := await look()):
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise AssertionError(seen) from None


async def wait_explained(process: harness.Autoscaler, what: str, *texts: str) -> None:
    await wait_until(lambda: explain(process, f"/explain/{what}"), lambda said: all(text in said for text in texts))


def test_others_get_their_nodes_and_each_odd_object_is_named(tmp_path: Path) -> None:
    asyncio.run(play(tmp_path))
