"""The recorded life stories on the real control plane: told to our controller, or to Cluster API's own.

    python -m tests.conformance.machinepool_bed           # to ours, the manager's MachinePool controller being off
    python -m tests.conformance.machinepool_bed --peer    # to theirs as well, and every difference with its reason

All stories are told at once, each with objects of its own.
"""

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import prometheus_client

from testbed import clusterapi, openshift, sharing
from testbed.bed import Bed
from testbed.site import Choice
from tests.conformance.machinepool_stories import Seed, Teller, compare
from tests.conformance.outcome import Json, Outcome
from tests.controllers.machine_pool import management_cluster
from windlass import clock
from windlass.controllers import controller_runtime
from windlass.controllers.controller_runtime import ControllerMetrics
from windlass.controllers.machine_pool import controller
from windlass.controllers.machine_pool.model import MachinePoolSettings
from windlass.kube import client, request_builders, rest_config, transport

STORIES = Path(__file__).parents[3] / "shared" / "vectors" / "machinepool"
QUIET_S, LONGEST_S = 2.0, 20.0
LOOK_EVERY_S = 0.25


class BedScene(management_cluster.Objects):
    """The real control plane, as a scene."""

    def __init__(self, api: client.Client) -> None:
        self.api = api
        self.version = "v1beta2"
        self.watched: dict[str, None] = {}

    async def apply(self, body: Json) -> Json:
        self.watched[f"{body['kind']} {body['metadata']['name']}"] = None
        return await super().apply(body)

    async def settle(self, seconds: float = QUIET_S) -> None:
        """Until nothing that this story is about changed for a while.

        The while is counted in looks: on a busy machine they take longer, as does what is waited for.
        """
        if seconds < QUIET_S:
            await asyncio.sleep(seconds)
            return
        loop = asyncio.get_running_loop()
        begun, unchanged = loop.time(), 0
        seen: object = None
        while unchanged < QUIET_S / LOOK_EVERY_S and loop.time() - begun < LONGEST_S:
            now = await self._versions()
            seen, unchanged = now, unchanged + 1 if now == seen else 0
            await asyncio.sleep(LOOK_EVERY_S)

    async def _versions(self) -> list[object]:
        found = []
        for name in self.watched:
            kind, _, called = name.partition(" ")
            body = await self.get(kind, called)
            found.append(body and body["metadata"]["resourceVersion"])
        return found

    def errors(self) -> float:
        return 0.0


@contextlib.asynccontextmanager
async def connect(kubeconfig: Path, manager: str) -> AsyncIterator[client.Client]:
    async with rest_config.load_rest_config(clock.RealClock(), str(kubeconfig)).connect() as carrier:
        yield client_of(carrier, manager)


def client_of(carrier: transport.Transport, manager: str) -> client.Client:
    return client.Client(
        carrier, clock.RealClock(), client.ClientSettings(qps=0, writer=request_builders.WriteOptions(manager))
    )


@contextlib.asynccontextmanager
async def controlled(kubeconfig: Path) -> AsyncIterator[None]:
    """With our controller running."""
    async with connect(kubeconfig, "windlass") as api:
        site = controller_runtime.ControllerContext(
            api, ControllerMetrics(prometheus_client.CollectorRegistry()), workers=10
        )
        pools = controller.new_controller(site, MachinePoolSettings(allow_insecure_kubeconfigs=True))
        running = asyncio.ensure_future(pools.run())
        try:
            while pools.check_ready() and not running.done():
                await asyncio.sleep(LOOK_EVERY_S)
            yield
            assert not running.done(), running.exception()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def report(bed: Bed, names: list[str], *, ours: bool) -> dict[str, tuple[list[Outcome], list[Json]]]:
    """Outcomes and what was found, by the name of the story. The bed has a Cluster `work`."""
    async with connect(bed.kubeconfig, "client") as api, contextlib.AsyncExitStack() as stack:
        scene = BedScene(api)
        for item in json.loads((STORIES / "common.json").read_text())["crds"]:
            await scene.apply(item)
            spec = item["spec"]
            for version in (entry["name"] for entry in spec["versions"] if entry["served"]):
                collection = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
                await asyncio.to_thread(openshift.wait_served, bed.api, collection)
        if ours:
            await stack.enter_async_context(controlled(bed.kubeconfig))
        return dict(await asyncio.gather(*(_report(name, api) for name in names)))


async def _report(name: str, api: client.Client) -> tuple[str, tuple[list[Outcome], list[Json]]]:
    story = json.loads((STORIES / f"{name}.json").read_text())
    teller = Teller(BedScene(api), story, alone=False)
    outcomes = [await teller.play(number, step) for number, step in enumerate(story["steps"])]
    return name, (outcomes, teller.found)


def choose(*, ours: bool) -> Choice:
    return Choice(kwok=True, capi=True, capi_machine_pools=not ours, node_lifecycle=False)


def every_story() -> list[str]:
    return sorted(path.stem for path in STORIES.glob("*.json") if path.stem != "common")


def play(names: list[str], *, ours: bool) -> dict[str, tuple[list[Outcome], list[Json]]]:
    """Tell stories on a bed of their own."""
    with sharing.alone(choose(ours=ours)) as bed:
        clusterapi.add_cluster(bed.api, bed.kubeconfig)
        return asyncio.run(report(bed, names, ours=ours))


def explain(name: str, theirs: list[Json], ours: list[Json]) -> Iterator[tuple[str, str]]:
    """(reason, difference) for all that differs between two tellings; no reason if there is none."""
    seed = Seed()
    told: list[str] = []
    steps = json.loads((STORIES / f"{name}.json").read_text())["steps"]
    for number, (step, their, our) in enumerate(zip(steps, theirs, ours, strict=True)):
        for body in step["apply"]:
            seed.on_event(body)
        recorded = {**step["expect"], "reconcile errors": None}
        corrected = {**seed.correct(step["expect"]), "reconcile errors": None}
        if "managers of MachinePool" in recorded:
            recorded["managers of MachinePool"] = corrected["managers of MachinePool"]
        said = {difference.partition(": ")[0] for difference in compare(recorded, corrected)}
        # What they told late, because of a defect, was told here already.
        their = {**their, "new events": [item for item in their["new events"] if item["message"] not in told]}
        told += [entry["message"] for entry in our["new events"]]
        for difference in compare(their, our):
            reason = "the seed" if difference.partition(": ")[0] in said else ""
            defect = step.get("upstream defect")
            yield (f"defect: {defect}" if defect else reason), f"{name} {number}: {difference}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("stories", nargs="*")
    arguments = parser.parse_args()
    names = arguments.stories or every_story()
    ours = play(names, ours=True)
    outcomes = [outcome for found, _ in ours.values() for outcome in found]
    for outcome in outcomes:
        for difference in outcome.differences:
            print(f"  {outcome.name}: {difference}")
    agreed = sum(outcome.agreed for outcome in outcomes)
    unexplained = 0
    if arguments.peer:
        theirs = play(names, ours=False)
        for name in names:
            for reason, difference in explain(name, theirs[name][1], ours[name][1]):
                print(f"  [{reason or 'UNEXPLAINED'}] {difference}")
                unexplained += not reason
        print(f"unexplained differences from the peer: {unexplained}")
    print(f"agree {agreed}/{len(outcomes)}")
    return 0 if agreed == len(outcomes) and not unexplained else 1


if __name__ == "__main__":
    sys.exit(main())
