"""Whatever happens between us and Cluster API, the machines that go are those that were told to."""

import asyncio
import contextlib
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.providers.clusterapi.management_cluster import MARK, Bed, node, play
from windlass.engine.model import plan
from windlass.kube import errors, transport
from windlass.providers import base

G = "MachineDeployment/default/g"
Step = tuple[str, int]

STEPS = st.one_of(
    st.tuples(st.just("delete"), st.integers(0, 5)),
    st.tuples(st.just("delete"), st.integers(0, 5)),
    st.tuples(st.just("grow"), st.integers(1, 2)),
    st.tuples(st.just("plant"), st.integers(0, 5)),
    st.tuples(st.sampled_from(["act", "restart", "refuse", "lose the request", "lose the answer"]), st.just(0)),
)


class History:
    """A group, what was told, and Cluster API, which acts when it is its turn."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.told: set[str] = set()
        self._numbers = iter(range(3, 1000))

    async def machines(self) -> dict[str, bool]:
        """Name, and whether it is marked, oldest first."""
        objects = await self.bed.api.list(self.bed.resource("Machine"))
        by_age = sorted(objects.items, key=lambda one: int(one["metadata"]["name"].rpartition("-")[2]))
        return {item["metadata"]["name"]: MARK in item["metadata"].get("annotations", {}) for item in by_age}

    async def act(self) -> None:
        """As many machines as there should be: marked ones go first, then the newest."""
        wanted, there = await self.bed.replicas(G), await self.machines()
        for _ in range(wanted - len(there)):
            self.bed.machine(f"g-{next(self._numbers)}", "g-1")
        victims = sorted(reversed(there), key=lambda name: not there[name])[: max(len(there) - wanted, 0)]
        for name in victims:
            await self.bed.remove("Machine", name)
        await self.bed.settle()
        assert set(victims) <= self.told, f"{set(victims) - self.told} went without being told to"

    async def delete(self, number: int) -> None:
        there = list(await self.machines())
        if not there:
            return
        chosen = there[number % len(there)]
        was_told = chosen in self.told
        self.told.add(chosen)
        try:
            await self.bed.provider.delete_nodes(G, [node(chosen)])
        except base.ProviderError as error:
            if "gone" not in str(error) and not was_told:
                self.told.discard(chosen)

    async def grow(self, by: int) -> None:
        size = await self.bed.replicas(G) + by
        with contextlib.suppress(base.ProviderError):
            await self.bed.provider.resize(plan.Resize(G, size - by, size, 10))
            if size >= len(await self.machines()):
                self.told.clear()  # whatever was still to go stays now

    async def plant(self, number: int) -> None:
        """Someone marks a machine; not while others are on their way, for then Cluster API itself could not tell."""
        there = await self.machines()
        if there and len(there) <= await self.bed.replicas(G):
            name = list(there)[number % len(there)]
            patch = {"metadata": {"annotations": {MARK: "by hand"}}}
            await self.bed.api.merge_patch(self.bed.resource("Machine"), name, patch, "default")
            await self.bed.settle()

    def trouble(self, kind: str) -> None:
        """The next change of size comes to harm."""
        if kind == "refuse":
            self.bed.carrier.forbid("PATCH", "/scale")
        else:
            self.bed.carrier.refuse = _lose(self.bed, acts=kind == "lose the answer")


def _lose(bed: Bed, acts: bool) -> Callable[[transport.Request], transport.Response | None]:
    def lose(request: transport.Request) -> transport.Response | None:
        if request.method != "PATCH":
            return None
        bed.carrier.allow()
        if acts:
            bed.server.handle(request)
        raise errors.ConnectionLost(request.call, "gone")

    return lose


@settings(deadline=None)
@given(st.lists(STEPS, max_size=12))
def test_only_machines_that_were_told_to_go_go(steps: list[Step]) -> None:
    async def scenario(bed: Bed) -> None:
        history = History(bed)
        for what, number in steps:
            if what in ("delete", "grow", "plant"):
                await {"delete": history.delete, "grow": history.grow, "plant": history.plant}[what](number)
                if what != "plant":
                    bed.carrier.allow()
            elif what == "act":
                await history.act()
            elif what == "restart":
                await bed.restart()
            else:
                history.trouble(what)
        await asyncio.sleep(1.0)
        await history.act()

    def arrange(bed: Bed) -> None:
        bed.group("g", 3)
        bed.members("g", 3)

    play(scenario, arrange)
