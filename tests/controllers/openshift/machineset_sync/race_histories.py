"""Races: an autoscaler, an administrator, the operator and a migration write to one pair while it is mirrored.

What the controller asks for takes its time, on the way there and back, so that others write between any two steps of a
pass. The controller may be replaced at any moment. Afterwards everyone rests, and `check` looks at what is left.
"""

import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from tests.controllers.openshift.machineset_sync.machine_set_pairs import ADMINISTRATOR, NAME, OPERATOR, World
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import CLUSTER_API, MACHINE_API
from windlass.kube import transport

Json = dict[str, Any]

HOLDER = {"MachineAPI": MACHINE_API, "ClusterAPI": CLUSTER_API}
RESTS_S = 120.0
CATCHES_UP_S = 20.0
"""After this long without a write everything that was written has been mirrored, and marked."""


@dataclass(frozen=True)
class Step:
    """Something that someone does, after a while."""

    what: str
    number: int
    after_s: float


@dataclass
class Told:
    """What was written, when, and by whom."""

    sizes: list[tuple[float, str, int]] = field(default_factory=list)
    bounds: list[tuple[float, str]] = field(default_factory=list)
    labels: list[tuple[float, str]] = field(default_factory=list)
    actions: int = 0


class Slow:
    """A transport whose every call takes a while, each way."""

    def __init__(self, carrier: transport.Transport, scene: World, rng: random.Random) -> None:
        self._carrier, self._scene, self._rng = carrier, scene, rng

    async def send(self, request: transport.Request) -> transport.Response:
        if request.method != "GET":
            await self._scene.clock.sleep(self._rng.choice((0.0, 0.01, 0.3)))
        response = await self._carrier.send(request)
        if request.method != "GET":
            await self._scene.clock.sleep(self._rng.choice((0.0, 0.01, 0.3)))
        return response


async def play(scene: World, first: str, steps: list[Step], seed: int) -> Told:
    """Everything that happens, and what is left."""
    rng = random.Random(seed)
    told = Told()
    await scene.add_pair(first, replicas=2)
    async with scene.pausing():
        async with _controlled(scene, rng):
            await scene.settle(CATCHES_UP_S)
        writes = 0
        for life in _split(steps):
            async with _controlled(scene, rng):
                for step in life:
                    await scene.settle(step.after_s)
                    await _do(scene, step, told)
                writes += _count(scene)
        async with _controlled(scene, rng):
            await scene.settle(RESTS_S)
            writes += _count(scene)
            await check(scene, told, writes)
    return told


def _count(scene: World) -> int:
    return len(scene.written.writes)


@contextlib.asynccontextmanager
async def _controlled(scene: World, rng: random.Random) -> AsyncIterator[None]:
    async with scene.controlled(lambda carrier: Slow(carrier, scene, rng)):
        yield


def _split(steps: list[Step]) -> list[list[Step]]:
    """Lives of controllers: `restart` ends one."""
    lives: list[list[Step]] = [[]]
    for step in steps:
        if step.what == "restart":
            lives.append([])
        else:
            lives[-1].append(step)
    return lives


async def _do(scene: World, step: Step, told: Told) -> None:
    told.actions += 1
    now_s, number = scene.clock.now_s(), step.number
    holder = HOLDER.get(await scene.authority())
    if step.what == "autoscaler":
        before = (await scene.get(CLUSTER_API))["spec"]["replicas"]
        if before != number:  # the policy denies it, and nothing would be written
            await scene.scale(number)
            told.sizes.append((now_s, "autoscaler", number))
    elif step.what in ("edit", "apply", "scale"):
        if holder is not None and (await scene.get(holder))["spec"]["replicas"] != number:
            await _resize(scene, holder, step.what, number)
            told.sizes.append((now_s, "administrator", number))
    elif step.what == "bounds":
        side = machine_apis.MACHINE_APIS[number % 2]
        if holder is not None:
            await scene.annotate(side if number < 3 else holder, OPERATOR, min_size=str(number))
            told.bounds.append((now_s, str(number)))
    elif step.what == "label":
        if holder is not None:
            await scene.edit(holder, {"metadata": {"labels": {"team": str(number)}}})
            told.labels.append((now_s, str(number)))
    elif step.what == "migrate":
        await scene.migrate(("MachineAPI", "ClusterAPI")[number % 2])


async def _resize(scene: World, holder: machine_apis.MachineApi, how: str, number: int) -> None:
    if how == "edit":
        await scene.resize(number, holder)
    elif how == "scale":
        await scene.scale(number, ADMINISTRATOR, holder)
    else:
        found = await scene.get(holder)
        metadata = {"name": NAME, "namespace": holder.namespace, "uid": found["metadata"]["uid"]}
        body = {"metadata": metadata, "spec": {"replicas": number}}
        await scene.as_manager("gitops").apply(holder.machine_sets(), body, force=True)


async def check(scene: World, told: Told, writes: int) -> None:
    """Both are equal, what was written last is there, and nobody writes any more."""
    ours, theirs = [await scene.get(api) for api in machine_apis.MACHINE_APIS]
    status = ours["status"]
    assert status["authoritativeAPI"] == ours["spec"]["authoritativeAPI"], status
    condition = await scene.synchronized()
    assert condition["status"] == "True", condition
    holder = ours if status["authoritativeAPI"] == "MachineAPI" else theirs
    assert status["synchronizedGeneration"] == holder["metadata"]["generation"]
    sizes = await scene.sizes()
    assert sizes[0] == sizes[1], sizes
    assert sizes[0] in _list_possible(told.sizes), (sizes, told.sizes)
    bounds = [(await scene.annotations(api)).get(api.min_size) for api in machine_apis.MACHINE_APIS]
    assert bounds[0] == bounds[1], bounds
    if told.bounds:
        assert bounds[0] in _list_recent(told.bounds), (bounds, told.bounds)
    labels = [body["metadata"].get("labels", {}).get("team") for body in (ours, theirs)]
    assert labels[0] == labels[1], labels
    is_paused = machine_apis.PAUSED_ANNOTATION in await scene.annotations(CLUSTER_API)
    assert is_paused == (status["authoritativeAPI"] == "MachineAPI")
    assert await scene.is_quiet(700.0), scene.written.writes
    # Each change costs a few writes, a migration a dozen; a loop would cost hundreds.
    assert writes <= 40 + 25 * told.actions, writes


def _list_possible(sizes: list[tuple[float, str, int]]) -> set[int]:
    """The last that was written. An autoscaler that wrote shortly before an administrator may win as well."""
    if not sizes:
        return {2}
    last_s, author, last = sizes[-1]
    if author == "autoscaler":
        return {last}
    found = {last}
    for at_s, by, size in reversed(sizes[:-1]):
        if by == "autoscaler" and last_s - at_s < CATCHES_UP_S:
            found.add(size)
            break
    return found


def _list_recent(written: list[tuple[float, str]]) -> set[str]:
    """The last that was written, and what was written while it was not known yet."""
    last_s = written[-1][0]
    return {value for at_s, value in written if last_s - at_s < CATCHES_UP_S}
