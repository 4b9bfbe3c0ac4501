"""Memory on the server: written in order, over nothing that is newer, in parts where it is large, and read whole."""

import asyncio
import base64
import contextlib
import json
import random
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.autoscaler.in_process_cluster import Cluster, play
from tests.autoscaler.test_autoscaler import quick
from tests.providers.clusterapi.management_cluster import refusal
from windlass import clock, errors
from windlass.apiserver import embedded_server, registry, server
from windlass.autoscaler import memory_store
from windlass.engine.model import durable_memory
from windlass.kube import client, resources, transport
from windlass.kube import errors as kube_errors

NAME, NAMESPACE = "memory", "kube-system"
ConfigMap = dict[str, Any]


class Net:
    """Carries requests to the server; what a test does to the next writes of ConfigMaps comes before that."""

    def __init__(self, time: clock.VirtualClock) -> None:
        self.clock = time
        self.server = server.Server(time, registry.ServerSettings())
        self.server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        self.inner = embedded_server.InProcessTransport(self.server, time)
        self.written = 0
        self.odd: list[Callable[[transport.Request], Awaitable[transport.Response | None]] | None] = []

    async def send(self, request: transport.Request) -> transport.Response:
        if request.method != "GET":
            self.written += 1
            odd = self.odd.pop(0) if self.odd else None
            if odd is not None and (response := await odd(request)) is not None:
                return response
        return await self.inner.send(request)

    def keeper(self, identity: str = "me") -> memory_store.MemoryStore:
        return memory_store.MemoryStore(self.api(), NAMESPACE, NAME, identity)

    def api(self) -> client.Client:
        return client.Client(self, self.clock, client.ClientSettings(qps=0), random.Random(1))

    async def find(self, name: str = NAME) -> ConfigMap:
        return await self.api().get(resources.CONFIG_MAPS.untyped(), name, NAMESPACE)

    async def kept(self) -> float | None:
        """The mark in what the server has, as whoever comes next reads it."""
        return (await self.keeper("next").read()).durable.activity.added_s


def marked(number: float, timers: int = 0) -> durable_memory.DurableMemory:
    """A memory that can be told from others, of about 10 bytes for each timer."""
    empty, chance = durable_memory.DurableMemory(), random.Random(number)
    since = {f"node-{chance.getrandbits(64):x}": chance.random() for _ in range(timers)}
    return replace(
        empty,
        loop=int(number),
        activity=replace(empty.activity, added_s=number),
        scale_down=replace(empty.scale_down, since=since, previous=frozenset(since)),
    )


def run(scenario: Callable[[Net], Awaitable[None]]) -> None:
    time = clock.VirtualClock(1.7e9)

    async def main() -> None:
        await scenario(Net(time))

    time.run(main())


def deliver_after(net: Net, seconds: float) -> Callable[[transport.Request], Awaitable[transport.Response]]:
    """The caller hears nothing; what it sent arrives later."""

    async def odd(request: transport.Request) -> transport.Response:
        async def deliver() -> None:
            await net.clock.sleep(seconds)
            await net.inner.send(request)

        under_way = asyncio.ensure_future(deliver())
        await asyncio.Event().wait()
        raise AssertionError(under_way)

    return odd


@pytest.mark.parametrize("late_s", [5.5, 8.0])
@pytest.mark.parametrize("again_s", [0.0, 4.0])
def test_a_write_that_was_given_up_and_arrives_late_replaces_nothing_newer(late_s: float, again_s: float) -> None:
    async def scenario(net: Net) -> None:
        keeper = net.keeper()
        await keeper.write(marked(1.0))
        net.odd = [deliver_after(net, late_s)]
        with pytest.raises(memory_store.MemoryNotSaved, match=r"kube-system/memory.*next loop"):
            await keeper.write(marked(2.0))
        await net.clock.sleep(again_s)
        await keeper.write(marked(3.0))
        await net.clock.sleep(10.0)
        assert await net.kept() == 3.0

    run(scenario)


def test_what_may_or_may_not_have_been_written_is_written_over_even_by_what_was_there_before() -> None:
    async def scenario(net: Net) -> None:
        keeper = net.keeper()
        await keeper.write(marked(1.0))
        net.odd = [deliver_after(net, 5.5)]
        with pytest.raises(memory_store.MemoryNotSaved):
            await keeper.write(marked(2.0))
        await net.clock.sleep(1.0)
        assert await net.kept() == 2.0
        await keeper.write(marked(1.0))
        assert await net.kept() == 1.0

    run(scenario)


def test_a_write_whose_answer_was_lost_counts_as_written() -> None:
    async def scenario(net: Net) -> None:
        async def lose(request: transport.Request) -> transport.Response:
            await net.inner.send(request)
            raise kube_errors.ConnectionLost(request.call, "cut")

        keeper = net.keeper()
        await keeper.write(marked(1.0))
        net.odd = [lose]
        await keeper.write(marked(2.0))
        assert await net.kept() == 2.0
        assert (await net.find())["data"]["generation"] == "2"

    run(scenario)


def test_a_role_that_may_create_and_not_update_ends_storing_and_leaves_nothing_outdated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(net: Net) -> None:
        async def forbid_updates(request: transport.Request) -> transport.Response | None:
            return refusal(403, "Forbidden") if request.method == "PUT" else None

        keeper = net.keeper()
        net.odd = [forbid_updates] * 99
        for _ in range(3):
            with pytest.raises(memory_store.MemoryNotSaved, match="grant create"):
                await keeper.write(marked(1.0))
            await net.clock.sleep(10.0)
        await keeper.write(marked(2.0))
        sent = net.written
        await keeper.write(marked(3.0))
        assert net.written == sent, "nothing is tried any more"
        assert await net.kept() == durable_memory.DurableMemory().activity.added_s
        again = net.keeper("next")
        await again.read()
        with pytest.raises(memory_store.MemoryNotSaved):
            await again.write(marked(4.0))
        net.odd = []
        await again.write(marked(5.0))
        assert await net.kept() == 5.0
        net.odd = [forbid_updates] * 99
        await net.clock.sleep(60.0)
        for _ in range(2):
            with pytest.raises(memory_store.MemoryNotSaved):
                await again.write(marked(6.0))
            await net.clock.sleep(60.0)

    run(scenario)
    assert "no permission for memory ConfigMap" in caplog.text


def test_another_process_that_has_written_since_is_not_written_over() -> None:
    async def scenario(net: Net) -> None:
        first, second = net.keeper("a"), net.keeper("b")
        await first.write(marked(1.0))
        await second.read()
        await second.write(marked(2.0))
        for _ in range(2):
            with pytest.raises(memory_store.MemoryConflict, match="b has written memory"):
                await first.write(marked(3.0))
        assert await net.kept() == 2.0

    run(scenario)


def test_what_the_process_before_sent_and_arrives_late_is_written_over() -> None:
    async def scenario(net: Net) -> None:
        first, second = net.keeper("a"), net.keeper("b")
        await first.write(marked(1.0))
        await second.read()
        await first.write(marked(2.0))
        await second.write(marked(3.0))
        assert await net.kept() == 3.0

    run(scenario)


@pytest.mark.parametrize("change", ["deleted", "annotated", "emptied"])
def test_what_people_do_to_the_config_map_is_written_over(change: str) -> None:
    async def scenario(net: Net) -> None:
        keeper, api = net.keeper(), net.api()
        await keeper.write(marked(1.0))
        if change == "deleted":
            await api.delete(resources.CONFIG_MAPS, NAME, NAMESPACE)
        elif change == "annotated":
            await api.merge_patch(resources.CONFIG_MAPS, NAME, {"metadata": {"annotations": {"a": "b"}}}, NAMESPACE)
        else:
            await api.merge_patch(resources.CONFIG_MAPS, NAME, {"data": None, "binaryData": None}, NAMESPACE)
        await keeper.write(marked(2.0))
        assert await net.kept() == 2.0

    run(scenario)


def test_what_earlier_versions_wrote_is_read_and_replaced() -> None:
    async def scenario(net: Net) -> None:
        plain = json.dumps(durable_memory.to_plain(marked(1.0, 40)), sort_keys=True)
        text = base64.b64encode(zlib.compress(plain.encode())).decode()
        name = {"name": NAME, "namespace": NAMESPACE}
        net.server.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": name, "data": {"memory": text}})
        keeper = net.keeper()
        assert (await keeper.read()).durable == marked(1.0, 40)
        await keeper.write(marked(2.0))
        assert "memory" not in (await net.find())["data"]
        assert await net.kept() == 2.0

    run(scenario)


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"[]", b"null", b'{"metadata": {"resourceVersion": 7}}'])
def test_a_senseless_answer_says_nothing_of_what_is_there(body: bytes) -> None:
    async def chunks() -> AsyncGenerator[bytes, None]:
        yield body

    async def scenario(net: Net) -> None:
        await net.keeper().write(marked(1.0))
        keeper, inner = net.keeper("b"), net.inner

        class Senseless:
            async def send(self, request: transport.Request) -> transport.Response:
                return transport.Response(200, {}, chunks())

        net.inner = Senseless()  # type: ignore[assignment]
        with pytest.raises(kube_errors.KubeError):
            await keeper.read()
        net.inner = inner
        await keeper.read()
        net.inner = Senseless()  # type: ignore[assignment]
        with pytest.raises(memory_store.MemoryNotSaved):
            await keeper.write(marked(2.0))
        net.inner = inner
        await keeper.write(marked(3.0))
        assert await net.kept() == 3.0

    run(scenario)


# ── Parts ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_store, "MAX_PART_BYTES", 2000)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("sizes", [(300, 300, 300), (10, 300, 10, 300), (300, 10, 10, 300), (120, 300, 120, 10)])
@pytest.mark.parametrize("dies_at", range(1, 12))
def test_a_death_between_any_two_parts_leaves_the_last_memory_that_is_whole(
    sizes: tuple[int, ...], dies_at: int
) -> None:
    async def scenario(net: Net) -> None:
        async def die(_: transport.Request) -> transport.Response:
            raise asyncio.CancelledError

        keeper, memories = (
            net.keeper(),
            [marked(0.5), *(marked(number + 1.0, item) for number, item in enumerate(sizes))],
        )
        await keeper.write(memories[0])
        net.odd = [None] * (dies_at - 1) + [die]
        with contextlib.suppress(asyncio.CancelledError):
            for durable in memories[1:]:
                await keeper.write(durable)
        net.odd = []
        last = memories[int((await net.find())["data"]["generation"]) - 1]
        following = net.keeper("next")
        assert (await following.read()).durable == last
        await following.write(marked(9.0, 300))  # and goes on from there
        assert (await net.keeper().read()).durable == marked(9.0, 300)

    run(scenario)


@pytest.mark.usefixtures("small")
def test_parts_that_are_missing_or_of_another_generation_are_begun_anew(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(net: Net) -> None:
        keeper = net.keeper()
        await keeper.write(marked(1.0, 300))
        await net.find(f"{NAME}-4")
        patch = {"binaryData": {"memory": base64.b64encode(b"else").decode()}}
        await net.api().merge_patch(resources.CONFIG_MAPS, f"{NAME}-4", patch, NAMESPACE)
        assert (await net.keeper("b").read()).durable == durable_memory.DurableMemory()
        await net.api().delete(resources.CONFIG_MAPS, f"{NAME}-4", NAMESPACE)
        assert (await net.keeper("b").read()).durable == durable_memory.DurableMemory()
        assert caplog.text.count("discarded unreadable memory") == 2

    run(scenario)


@pytest.mark.usefixtures("small")
def test_parts_that_are_of_no_use_any_more_are_emptied() -> None:
    async def scenario(net: Net) -> None:
        keeper = net.keeper()
        await keeper.write(marked(1.0, 300))
        await keeper.write(marked(2.0, 300))
        await keeper.write(marked(3.0))
        names = [f"{NAME}-{number}" for number in (1, 2, 4, 5)]
        assert [(await net.find(name))["binaryData"]["memory"] for name in names] == [""] * 4
        assert await net.kept() == 3.0

    run(scenario)


@pytest.mark.usefixtures("small")
def test_a_memory_that_fits_no_number_of_parts_is_not_saved() -> None:
    async def scenario(net: Net) -> None:
        keeper = net.keeper()
        with pytest.raises(memory_store.MemoryNotSaved, match="does not fit 4 ConfigMaps"):
            await keeper.write(marked(1.0, 900))
        assert net.written == 0
        await keeper.write(marked(2.0, 10))
        assert await net.kept() == 2.0

    run(scenario)


def test_a_hundred_thousand_timers_are_kept() -> None:
    async def scenario(net: Net) -> None:
        async def refuse_large(request: transport.Request) -> transport.Response | None:
            return refusal(413, "RequestEntityTooLarge") if len(request.body) > 1.4 * 2**20 else None

        net.odd = [refuse_large] * 10
        keeper = net.keeper()
        large = marked(1.0, 100_000)
        await keeper.write(large)
        assert (await net.keeper().read()).durable == large
        assert net.written == 3, "created empty, and two parts"

    run(scenario)


def test_twenty_five_thousand_timers_take_a_third_of_what_they_took_as_text() -> None:
    large = marked(1.0, 25_000)
    text = base64.b64encode(zlib.compress(json.dumps(durable_memory.to_plain(large), separators=(",", ":")).encode()))
    assert len(memory_store.encode_memory(large)) < len(text) / 2


@pytest.mark.parametrize("seed", range(200))
def test_bytes_that_somebody_bent_are_refused_or_read(seed: int) -> None:
    chance = random.Random(seed)
    packed = memory_store.encode_memory(marked(1.0, 40))[len(memory_store.MAGIC) :]
    plain = bytearray(zlib.decompress(packed))
    for _ in range(chance.randint(1, 4)):
        plain[chance.randrange(len(plain))] = chance.randrange(256)
    del plain[chance.choice((len(plain), len(plain), chance.randrange(len(plain)))) :]
    try:
        memory_store.decode_memory(memory_store.MAGIC + zlib.compress(bytes(plain)))
    except errors.InvalidInput:
        return


# ── In the loop ──────────────────────────────────────────────────────────────────────────────────────────────────


async def saved(cluster: Cluster) -> durable_memory.DurableMemory:
    return (await memory_store.MemoryStore(cluster.api, "kube-system", "windlass-memory").read()).durable


def test_a_drain_that_ends_while_a_group_is_raised_does_not_write_what_was_before() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 2, delete_s=1.0)
        cluster.register_nodes()
        cluster.add_pod("p", "3", node="a-1")

        class Slow:
            """Marking the node takes two seconds."""

            def __init__(self, inner: transport.Transport) -> None:
                self._inner = inner

            async def send(self, request: transport.Request) -> transport.Response:
                if request.method == "PUT" and request.path.endswith("/nodes/a-2"):
                    await cluster.clock.sleep(2.0)
                return await self._inner.send(request)

        cluster.carrier = Slow(cluster.carrier)  # type: ignore[assignment]
        raise_group, seen = cluster.provider.resize, list[list[str]]()

        async def resize(order: Any) -> None:
            for _ in range(6):
                seen.append(list((await saved(cluster)).health.requests.scale_ups))
                await cluster.clock.sleep(0.5)
            await raise_group(order)

        cluster.provider.resize = resize  # type: ignore[method-assign]
        async with cluster.autoscaling() as running:
            await cluster.until(lambda: "a-2" in running.memory.durable.drains)
            await cluster.clock.sleep(0.3)
            for number in range(3):
                cluster.add_pod(f"w{number}", "4")
            await cluster.clock.sleep(8.0)
            assert seen
            assert all(item == ["a"] for item in seen), seen
            assert memory_store.equals_ignoring_loop(await saved(cluster), running.memory.durable)

    play(scenario, quick())


def test_a_process_whose_memory_another_one_has_replaced_ends() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 0)
        async with cluster.autoscaling():
            await cluster.clock.sleep(15.0)
            other = memory_store.MemoryStore(cluster.api, "kube-system", "windlass-memory", "other")
            await other.read()
            await other.write(marked(5.0))
            cluster.add_pod("p", "2")
            await asyncio.wait((cluster.going,))
            assert isinstance(cluster.going.exception(), ExceptionGroup)
            assert "other has written memory" in str(cluster.going.exception().exceptions[0])  # type: ignore[union-attr]
            assert cluster.provider.groups["a"].size == 0
            assert (await saved(cluster)).activity.added_s == 5.0

    play(scenario)
