import asyncio
import dataclasses
import logging
import random
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kube import fake_api_server
from tests.kube.fake_api_server import Server, answer, refusal
from windlass import clock, errors
from windlass.kube import auth, client, informers, reflector, resources, store, transport
from windlass.kube import errors as kube_errors
from windlass.kube.models import core, meta

ConfigMap = core.ConfigMap


class Log:
    """A handler that writes down what it is told, and checks that it is told in order."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, str]] = []
        self.state: dict[str, ConfigMap] = {}

    def added(self, config_map: ConfigMap) -> None:
        assert config_map.meta.key not in self.state, "added twice"
        self._note("added", config_map)
        self.state[config_map.meta.key] = config_map

    def modified(self, before: ConfigMap, config_map: ConfigMap) -> None:
        assert self.state[config_map.meta.key] == before
        assert int(config_map.meta.resource_version or 0) > int(before.meta.resource_version or 0), (
            "went back, or doubled"
        )
        self._note("modified", config_map)
        self.state[config_map.meta.key] = config_map

    def deleted(self, before: ConfigMap) -> None:
        assert self.state.pop(before.meta.key) == before
        self._note("deleted", before)

    def _note(self, what: str, config_map: ConfigMap) -> None:
        self.lines.append((what, config_map.meta.name or "", (config_map.data or {}).get("v", "")))


@dataclasses.dataclass
class Scene:
    """A server, an informer that follows it, and what the informer's store and handler hold."""

    clock: clock.VirtualClock
    server: Server
    store: store.Store[ConfigMap]
    log: Log
    informer: informers.Informer[ConfigMap]

    def check(self, besides: Collection[str] = ()) -> None:
        """Nothing is lost and nothing doubled; of those besides, which cannot be read, what was known may be left."""
        expected = {f"ns/{name}": found for name, found in self.server.objects.items()}
        held = {config_map.meta.key: config_map for config_map in self.store if config_map.meta.name not in besides}
        assert held.keys() == expected.keys()
        for key, found in held.items():
            assert found.meta.resource_version == expected[key]["metadata"]["resourceVersion"]
            assert found.meta.uid == expected[key]["metadata"]["uid"]
        assert {key: found for key, found in self.log.state.items() if found.meta.name not in besides} == held


def play(
    scenario: Callable[[Scene], Awaitable[None]],
    *,
    streaming: bool = True,
    settings: reflector.ReflectorSettings | None = None,
    chunk_bytes: int = 1 << 20,
    wrap: Callable[[Server], transport.Transport] = lambda server: server,
    names: tuple[str, ...] = ("a", "b", "c"),
) -> Scene:
    """Run a scenario on a server that holds some objects, with an informer beside it."""
    virtual = clock.VirtualClock(now_s=1_700_000_000.0)

    async def main() -> Scene:
        server = Server(streaming=streaming, chunk_bytes=chunk_bytes)
        for name in names:
            await server.put(name, data={"v": "0"})
        api = client.Client(wrap(server), virtual, rng=random.Random(0))
        log = Log()
        held: store.Store[ConfigMap] = store.Store(handlers=[log])
        informer = informers.Informer(api, resources.CONFIG_MAPS, held, settings=settings)
        running = asyncio.create_task(informer.run())
        scene = Scene(virtual, server, held, log, informer)
        try:
            await scenario(scene)
        finally:
            running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not server._watches, "connections are left open"
        return scene

    return virtual.run(main())


both_lists = pytest.mark.parametrize("streaming", [True, False])


@both_lists
def test_the_store_holds_what_the_server_holds_and_follows_it(streaming: bool) -> None:
    async def scenario(scene: Scene) -> None:
        assert not scene.informer.synced
        await scene.informer.wait_synced()
        scene.check()
        await scene.server.put("d", data={"v": "1"})
        await scene.server.put("a", data={"v": "2"})
        await scene.server.delete("b")
        await scene.clock.sleep(1)

    scene = play(scenario, streaming=streaming)
    scene.check()
    assert scene.log.lines[3:] == [("added", "d", "1"), ("modified", "a", "2"), ("deleted", "b", "0")]
    assert scene.informer.counts.lists == 1
    assert scene.informer.counts.relists == 0
    assert scene.informer.counts.events == (6 if streaming else 3)


def test_a_long_list_is_read_in_pages_of_one_version() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        await scene.clock.sleep(1)

    names = tuple(f"n{i:02}" for i in range(25))
    scene = play(scenario, settings=reflector.ReflectorSettings(streaming=False, page_size=10), names=names)
    scene.check()
    queries = [dict(request.query) for request in scene.server.requests]
    assert [query.get("limit") for query in queries] == ["10", "10", "10", None]
    assert "resourceVersion" not in queries[1]
    assert queries[3]["resourceVersion"] == "35"
    assert queries[3]["allowWatchBookmarks"] == "true"


def test_a_server_that_does_not_know_streaming_lists_is_read_in_pages_without_waiting() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        assert scene.clock.monotonic_s() == 0.0
        await scene.clock.sleep(1)

    scene = play(scenario, streaming=False)
    assert [dict(request.query).get("sendInitialEvents") for request in scene.server.requests] == ["true", None, None]


def test_a_server_that_takes_a_streaming_list_for_a_plain_watch_is_found_out_by_its_bookmarks() -> None:
    def plain(request: transport.Request) -> transport.Response:
        event = b'{"type":"ADDED","object":{"metadata":{"namespace":"ns","name":"gone","uid":"u"}}}\n'
        mark = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"13"}}}\n'
        return transport.Response(200, {}, fake_api_server.Bytes(event + 3 * mark))

    async def scenario(scene: Scene) -> None:
        scene.server.faults.append(plain)
        await scene.informer.wait_synced()

    scene = play(scenario)
    scene.check()


def test_bookmarks_before_the_end_of_a_streaming_list_are_passed_over() -> None:
    def early(request: transport.Request) -> transport.Response:
        mark = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"13"}}}\n'
        event = (
            b'{"type":"ADDED","object":{"metadata":{"namespace":"ns","name":"a","uid":"u","resourceVersion":"5"}}}\n'
        )
        end = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"13","annotations":'
        end += b'{"k8s.io/initial-events-end":"true"}}}}\n'
        return transport.Response(200, {}, fake_api_server.Bytes(mark + event + mark + end))

    async def scenario(scene: Scene) -> None:
        scene.server.faults.append(early)
        await scene.informer.wait_synced()

    scene = play(scenario)
    assert scene.store.keys() == ["ns/a"]
    assert not any("limit" in dict(request.query) for request in scene.server.requests)


def test_a_watch_that_ends_at_once_again_and_again_is_trouble_until_it_brings_something() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        empty = transport.Response(200, {}, fake_api_server.Bytes(b""))
        scene.server.faults.extend([lambda request: empty] * 4)
        await scene.server.end_watches()
        troubles = []
        while len(scene.server.faults) > 0:
            await scene.clock.sleep(0.01)
            troubles.append(scene.informer.last_error)
        assert troubles[0] is None
        assert len({str(trouble) for trouble in troubles if trouble is not None}) == 1
        assert "the server ends the stream repeatedly within 10 s" in str(troubles[-1])
        await scene.clock.sleep(60)
        await scene.server.put("d")
        await scene.clock.sleep(1)
        assert scene.informer.last_error is None

    play(scenario).check()


@both_lists
def test_a_watch_that_ends_is_resumed_where_it_was(streaming: bool) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        await scene.clock.sleep(60)
        await scene.server.end_watches()
        await scene.server.put("a", data={"v": "1"})
        await scene.clock.sleep(1)

    scene = play(scenario, streaming=streaming)
    scene.check()
    assert scene.informer.counts.lists == 1
    assert dict(scene.server.requests[-1].query)["resourceVersion"] == "13"


def test_a_watch_that_brought_something_and_was_ended_soon_is_resumed_at_once() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        for value in ("1", "2", "3"):
            await scene.server.put("a", data={"v": value})
            await scene.clock.sleep(0.01)
            await scene.server.end_watches()
            await scene.clock.sleep(0.01)
        assert scene.informer.counts.watches == 3

    scene = play(scenario)
    scene.check()
    assert scene.informer.counts.lists == 1


def test_a_watch_that_brought_nothing_and_was_ended_soon_is_not_asked_for_without_end() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        for _ in range(100):
            await scene.server.end_watches()
            await scene.clock.sleep(0.01)
        assert scene.informer.counts.watches <= 4

    play(scenario).check()


def test_a_bookmark_moves_the_place_to_resume_from() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        scene.server.version = 90
        await scene.server.bookmark()
        await scene.clock.sleep(30)
        scene.server.forget()
        await scene.server.end_watches()
        await scene.clock.sleep(30)

    scene = play(scenario)
    assert scene.informer.resource_version == "90"
    assert scene.informer.counts.relists == 0


@both_lists
def test_a_connection_reset_in_the_middle_of_an_event_loses_and_doubles_nothing(streaming: bool) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        await scene.server.put("a", data={"v": "1"})
        await scene.server.put("b", data={"v": "2"})
        await scene.server.cut_watches(after_bytes=230)
        await scene.server.delete("c")
        await scene.clock.sleep(10)

    scene = play(scenario, streaming=streaming)
    scene.check()
    assert scene.log.lines[3:] == [("modified", "a", "1"), ("modified", "b", "2"), ("deleted", "c", "0")]
    assert scene.informer.counts.lists == 1


@both_lists
@pytest.mark.parametrize("in_stream", [True, False])
def test_a_forgotten_version_makes_a_new_list_that_finds_what_was_missed(streaming: bool, in_stream: bool) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        await scene.clock.sleep(30)
        if in_stream:
            await scene.server.say_error(410, "Expired")
        else:
            await scene.server.cut_watches()
        await scene.server.delete("a")
        await scene.server.put("b", data={"v": "1"})
        await scene.server.put("new")
        scene.server.forget()
        await scene.clock.sleep(30)

    scene = play(scenario, streaming=streaming)
    scene.check()
    assert scene.informer.counts.relists == 1
    assert scene.informer.counts.lists == 2
    assert sorted(scene.log.lines[3:]) == [("added", "new", ""), ("deleted", "a", "0"), ("modified", "b", "1")]


def test_an_object_that_was_replaced_by_another_of_its_name_is_deleted_and_added() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        await scene.server.cut_watches()
        await scene.server.delete("a")
        await scene.server.put("a", data={"v": "other"})
        scene.server.forget()
        await scene.clock.sleep(30)

    scene = play(scenario)
    scene.check()
    assert scene.log.lines[3:] == [("deleted", "a", "0"), ("added", "a", "other")]


def test_pages_that_expire_under_way_begin_anew() -> None:
    async def scenario(scene: Scene) -> None:
        scene.server.faults.extend([lambda request: None, lambda request: scene.server.forget()])
        await scene.informer.wait_synced()

    names = tuple(f"n{i:02}" for i in range(25))
    scene = play(scenario, settings=reflector.ReflectorSettings(streaming=False, page_size=5), names=names)
    scene.check()
    assert scene.informer.counts.relists == 1
    asked = [dict(request.query) for request in scene.server.requests if "watch" not in dict(request.query)]
    assert [query.get("limit") for query in asked] == ["5", "5", None]  # the list that is begun anew comes in one piece


def test_a_server_that_streams_no_lists_has_failed_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        assert scene.informer.last_error is None

    with caplog.at_level(logging.INFO, logger="windlass.kube"):
        scene = play(scenario, streaming=False)
    scene.check()
    assert scene.informer.counts.failures == 0
    assert caplog.messages == []


def test_an_answer_that_is_no_list_empties_no_sink() -> None:
    """A proxy that answers for a server that is away says 200, and something else."""

    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        await scene.clock.sleep(1.0)
        await scene.server.say_error(410, "Expired")
        scene.server.faults.append(lambda request: answer(200, {"status": "ok"}))
        await scene.clock.sleep(60.0)

    scene = play(scenario, settings=reflector.ReflectorSettings(streaming=False))
    scene.check()
    assert scene.informer.counts.failures == 2
    assert not any(what == "deleted" for what, _, _ in scene.log.lines)


def test_a_page_that_fails_is_asked_for_again_without_those_before_it() -> None:
    async def scenario(scene: Scene) -> None:
        scene.server.faults.extend([lambda request: None, lambda request: refusal(500, "InternalError")])
        await scene.informer.wait_synced()

    names = tuple(f"n{i:02}" for i in range(25))
    scene = play(scenario, settings=reflector.ReflectorSettings(streaming=False, page_size=5), names=names)
    scene.check()
    assert [dict(request.query).get("limit") for request in scene.server.requests].count("5") == 6


@both_lists
def test_a_server_that_asks_for_patience_gets_it(streaming: bool) -> None:
    async def scenario(scene: Scene) -> None:
        scene.server.faults.append(lambda request: refusal(429, "TooManyRequests", retry_after="7"))
        await scene.informer.wait_synced()
        assert scene.clock.monotonic_s() == 7.0

    play(scenario, streaming=streaming).check()


def test_failures_in_a_row_are_waited_out_longer_and_longer() -> None:
    async def scenario(scene: Scene) -> None:
        for _ in range(6):
            scene.server.faults.append(lambda request: refusal(500, "InternalError"))
        await scene.informer.wait_synced()
        total_s = 0.5 + 1 + 2 + 4 + 8 + 16
        assert total_s / 2 <= scene.clock.monotonic_s() <= total_s

    scene = play(scenario)
    scene.check()
    assert scene.informer.counts.failures == 6


def test_what_keeps_an_informer_from_being_current_can_be_asked_for() -> None:
    async def scenario(scene: Scene) -> None:
        assert scene.informer.last_error is None
        scene.server.faults.append(lambda request: refusal(403, "Forbidden", "may not list"))
        await scene.clock.sleep(0.1)
        assert "may not list" in str(scene.informer.last_error)
        await scene.informer.wait_synced()
        assert scene.informer.last_error is None

    play(scenario)


def test_a_server_that_was_killed_and_came_back_is_caught_up_with() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        scene.server.down = True
        await scene.server.cut_watches()
        await scene.server.put("a", data={"v": "1"})
        await scene.server.delete("b")
        await scene.clock.sleep(300)
        scene.server.down = False
        await scene.clock.sleep(60)

    play(scenario).check()


def test_a_server_that_was_set_back_to_an_earlier_state_is_listed_anew() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        before = dict(scene.server.objects)
        for i in range(50):
            await scene.server.put("late", data={"v": str(i)})
        await scene.clock.sleep(1)
        await scene.server.cut_watches()
        scene.server.objects, scene.server.version = before, 13
        scene.server._log.clear()
        await scene.clock.sleep(60)

    scene = play(scenario)
    scene.check()
    assert scene.informer.counts.relists == 1


def test_a_watch_that_falls_silent_is_given_up_and_resumed() -> None:
    def hang(request: transport.Request) -> transport.Response:
        return transport.Response(200, {}, Silence())

    class Silence:
        async def __aiter__(self) -> Any:
            await asyncio.Event().wait()
            yield b""

        async def aclose(self) -> None:
            """Nothing is open."""

    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        await scene.clock.sleep(20)
        scene.server.faults.append(hang)
        await scene.server.end_watches()
        await scene.clock.sleep(20)
        await scene.server.put("a", data={"v": "1"})
        await scene.clock.sleep(140)
        scene.check()

    play(scenario)


class Rotating:
    """Credentials of which there are always newer ones."""

    def __init__(self) -> None:
        self.version = 1
        self.rejected = 0

    async def current(self) -> auth.Credential:
        return auth.bearer_credential(f"t{self.version}")

    def reject(self, credential: auth.Credential) -> None:
        self.rejected += 1
        self.version += 1


def test_an_expired_token_is_replaced_without_a_word() -> None:
    credentials = Rotating()

    def wrap(server: Server) -> transport.Transport:
        server.token = "t1"
        return auth.AuthenticatedTransport(server, credentials)

    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        scene.server.token = "t2"
        await scene.clock.sleep(30)
        await scene.server.end_watches()
        await scene.server.put("a", data={"v": "1"})
        await scene.clock.sleep(0)
        await scene.clock.sleep(1)

    scene = play(scenario, wrap=wrap)
    scene.check()
    assert credentials.rejected == 1
    assert scene.informer.counts.failures == 0


def test_jumps_of_the_wall_clock_are_not_noticed() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        for now_s in (0.0, 4e9, 1e9):
            scene.clock.set_wall(now_s)
            await scene.server.put("a", data={"v": str(now_s)})
            await scene.clock.sleep(1)
            scene.check()

    scene = play(scenario)
    assert scene.informer.counts.failures == 0
    assert scene.informer.counts.watches == 0


@both_lists
def test_a_malformed_object_is_reported_by_name_and_the_rest_is_kept(streaming: bool) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.server.put("bad", data={"v": 7})
        await scene.informer.wait_synced()
        assert list(scene.informer.malformed) == ["ns/bad"]
        assert sorted(config_map.meta.name or "" for config_map in scene.store) == ["a", "b", "c"]
        assert "ConfigMap ns/bad: data" in str(scene.informer.malformed["ns/bad"])
        await scene.server.put("a", data=3)
        await scene.clock.sleep(1)
        assert sorted(scene.informer.malformed) == ["ns/a", "ns/bad"]
        before = scene.store.get("ns/a")
        assert before is not None  # what was known of it stays: it is not gone
        assert before.data == {"v": "0"}
        await scene.server.put("a", data={"v": "well again"})
        await scene.server.delete("bad")
        await scene.clock.sleep(1)
        assert not scene.informer.malformed

    scene = play(scenario, streaming=streaming)
    scene.check()
    assert scene.informer.counts.malformed == 2


@both_lists
def test_an_object_that_is_followed_as_json_and_has_no_usable_metadata_is_set_aside(streaming: bool) -> None:
    virtual = clock.VirtualClock()

    async def main() -> None:
        server = Server(streaming=streaming)
        await server.put("a")
        server.objects["odd"] = {"metadata": {"name": "odd", "namespace": "ns", "labels": [1]}}
        held: store.Store[resources.Unstructured] = store.Store()
        resource = resources.CONFIG_MAPS.untyped()
        informer = informers.Informer(client.Client(server, virtual), resource, held)
        running = asyncio.create_task(informer.run())
        await informer.wait_synced()
        await server.put("b", future={"field": [1]})
        await virtual.sleep(1)
        assert held.keys() == ["ns/a", "ns/b"]
        assert held.get("ns/b") == server.objects["b"]
        assert list(informer.malformed) == ["ns/odd"]
        running.cancel()

    virtual.run(main())


def test_an_object_that_the_sink_refuses_is_set_aside_like_a_malformed_one() -> None:
    class Picky(store.Store[ConfigMap]):
        def put(self, metadata: meta.ObjectMeta, config_map: ConfigMap) -> None:
            if (config_map.data or {}).get("v") == "ugly":
                raise errors.InvalidObject("ConfigMap", metadata.key, "data[v]", "ugly", "something nice")
            super().put(metadata, config_map)

    virtual = clock.VirtualClock()

    async def main() -> None:
        server = Server()
        await server.put("a", data={"v": "nice"})
        await server.put("b", data={"v": "ugly"})
        held = Picky()
        informer = informers.Informer(client.Client(server, virtual), resources.CONFIG_MAPS, held)
        running = asyncio.create_task(informer.run())
        await informer.wait_synced()
        assert held.keys() == ["ns/a"]
        await server.put("a", data={"v": "ugly"})
        await server.put("b", data={"v": "nice"})
        await virtual.sleep(1)
        assert sorted(held.keys()) == ["ns/a", "ns/b"]
        assert [(found.data or {})["v"] for found in held] == ["nice", "nice"]
        assert list(informer.malformed) == ["ns/a"]
        running.cancel()

    virtual.run(main())


DEEP = msgspec.Raw(b'{"":' * 3000 + b"1" + b"}" * 3000)
LONE = msgspec.Raw(b'"half a pair: \\ud83d"')


@both_lists
def test_an_object_that_no_decoder_takes_costs_neither_the_page_nor_the_stream(streaming: bool) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.server.put("deep", opaque=DEEP)
        await scene.server.put("lone", data={"v": LONE})
        await scene.informer.wait_synced()
        assert sorted(scene.informer.malformed) == ["ns/deep", "ns/lone"]
        await scene.server.put("a", data={"v": "1"})
        await scene.server.put("deeper", opaque=DEEP)
        await scene.server.put("later", data={"v": LONE})
        await scene.server.put("b", data={"v": "1"})
        await scene.clock.sleep(1)
        held = {config_map.meta.name: (config_map.data or {}).get("v") for config_map in scene.store}
        half = "half a pair: \ufffd"
        assert held == {"a": "1", "b": "1", "c": "0", "deep": None, "deeper": None, "lone": half, "later": half}
        assert sorted(scene.informer.malformed) == ["ns/deep", "ns/deeper", "ns/later", "ns/lone"]
        for name in ("deep", "deeper", "lone", "later"):
            await scene.server.delete(name)
        await scene.clock.sleep(1)
        assert not scene.informer.malformed
        assert sorted(scene.store.keys()) == ["ns/a", "ns/b", "ns/c"]

    scene = play(scenario, streaming=streaming)
    assert scene.informer.counts.failures == 0


def test_a_line_that_is_no_json_costs_the_object_that_it_names() -> None:
    line = b'{"type":"MODIFIED","object":{"metadata":{"name":"a","namespace":"ns","uid":"u"},"data":{"v":nonsense}}}\n'

    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        scene.server.faults.append(lambda request: transport.Response(200, {}, fake_api_server.Bytes(line)))
        await scene.server.end_watches()
        await scene.clock.sleep(1)
        assert list(scene.informer.malformed) == ["ns/a"]

    play(scenario)


@pytest.mark.parametrize("kind", [ValueError, RecursionError, OverflowError, AttributeError, MemoryError, KeyError])
@pytest.mark.parametrize("where", ["put", "remove", "begin", "end", "set_aside"])
def test_whatever_a_sink_raises_costs_one_change(
    kind: type[Exception], where: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Fragile(store.Store[ConfigMap]):
        def begin(self) -> None:
            super().begin()
            self._break("begin")

        def put(self, metadata: meta.ObjectMeta, config_map: ConfigMap) -> None:
            if metadata.name == "odd":
                self._break("put")
            super().put(metadata, config_map)

        def set_aside(self, unreadable: resources.Unreadable[ConfigMap]) -> None:
            super().set_aside(unreadable)
            self._break("set_aside")

        def remove(self, metadata: meta.ObjectMeta) -> None:
            super().remove(metadata)
            self._break("remove")

        def end(self) -> None:
            super().end()
            self._break("end")

        def _break(self, here: str) -> None:
            if here == where:
                raise kind("nobody foresaw this")

    virtual = clock.VirtualClock()

    async def main() -> None:
        server = Server()
        for name in ("a", "odd", "b"):
            await server.put(name, data={"v": "0"})
        await server.put("bad", data=5)
        held = Fragile()
        informer = informers.Informer(client.Client(server, virtual), resources.CONFIG_MAPS, held)
        running = asyncio.create_task(informer.run())
        await informer.wait_synced()
        await server.delete("b")
        await server.put("c", data={"v": "0"})
        await virtual.sleep(1)
        assert sorted(held.keys()) == ["ns/a", "ns/c", *(["ns/odd"] if where != "put" else [])]
        running.cancel()

    virtual.run(main())
    assert f"{kind.__name__}: " in caplog.text


changes = st.one_of(
    st.tuples(st.just("put"), st.sampled_from("abcdef")),
    st.tuples(st.just("put"), st.sampled_from("abcdef")),
    st.tuples(st.just("delete"), st.sampled_from("abcdef")),
    st.tuples(st.just("bad"), st.sampled_from("abcdef")),
    st.tuples(st.just("sleep"), st.sampled_from([0.0, 0.1, 3.0, 60.0, 400.0])),
    st.tuples(st.just("cut"), st.integers(0, 400)),
    st.tuples(st.sampled_from(["forget", "bookmark", "end", "down", "up"]), st.none()),
    st.tuples(st.just("error"), st.sampled_from([410, 500, 504])),
    st.tuples(st.just("fault"), st.sampled_from(["429", "500", "401", "403", "reset", "refused", "garbage", "410"])),
    st.tuples(st.just("wall"), st.floats(0, 4e9)),
)


def fault(kind: str) -> fake_api_server.Fault:
    def act(request: transport.Request) -> transport.Response:
        if kind == "reset":
            raise kube_errors.ConnectionLost(request.call, "reset")
        if kind == "refused":
            raise kube_errors.ConnectFailed(request.call, "refused")
        if kind == "garbage":
            return transport.Response(200, {}, fake_api_server.Bytes(b"<html>\n"))
        return refusal(int(kind), retry_after="3")

    return act


async def change(scene: Scene, what: str, argument: Any) -> None:
    server = scene.server
    if what == "put":
        await server.put(argument, data={"v": str(server.version)})
    elif what == "bad":
        await server.put(argument, data=[])
    elif what == "delete":
        await server.delete(argument)
    elif what == "sleep":
        await scene.clock.sleep(argument)
    elif what == "cut":
        await server.cut_watches(argument)
    elif what == "forget":
        server.forget()
    elif what == "bookmark":
        await server.bookmark()
    elif what == "end":
        await server.end_watches()
    elif what in ("down", "up"):
        server.down = what == "down"
        if server.down:
            await server.cut_watches()
    elif what == "error":
        await server.say_error(argument)
    elif what == "fault":
        server.faults.append(fault(argument))
    elif what == "wall":
        scene.clock.set_wall(argument)


@given(steps=st.lists(changes, max_size=40), streaming=st.booleans(), chunk_bytes=st.sampled_from([1, 7, 100, 1 << 20]))
def test_whatever_happens_in_the_end_the_store_is_as_the_server(
    steps: list[tuple[str, Any]], streaming: bool, chunk_bytes: int
) -> None:
    async def scenario(scene: Scene) -> None:
        for what, argument in steps:
            await change(scene, what, argument)
        scene.server.down = False
        scene.server.faults.clear()
        await scene.clock.sleep(120)
        bad = {name for name, found in scene.server.objects.items() if not isinstance(found.get("data"), dict)}
        assert set(scene.informer.malformed) == {f"ns/{name}" for name in bad}
        for name in bad:
            del scene.server.objects[name]
        scene.check(besides=bad)

    settings = reflector.ReflectorSettings(page_size=2)
    play(scenario, streaming=streaming, chunk_bytes=chunk_bytes, settings=settings)


def test_a_watch_that_was_taken_up_again_is_current_though_nothing_happens() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        await scene.clock.sleep(20.0)
        scene.server.faults.append(lambda request: refusal(500, "InternalError"))
        await scene.server.cut_watches()
        await scene.clock.sleep(0.6)
        assert scene.informer.last_error is not None
        await scene.clock.sleep(5.0)
        assert scene.informer.last_error is None

    play(scenario)


def test_a_watch_that_breaks_and_is_taken_up_again_leaves_the_store_current() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        for disturb in (scene.server.cut_watches, scene.server.say_nonsense):
            await scene.clock.sleep(20.0)
            await disturb()
            for _ in range(100):
                await scene.clock.sleep(0.05)
                assert scene.informer.last_error is None

    scene = play(scenario)
    scene.check()
    assert scene.informer.counts.failures == 2
    assert scene.informer.counts.lists == 1


def test_a_line_that_is_no_json_has_the_watch_taken_up_at_once() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        await scene.clock.sleep(20.0)
        await scene.server.say_nonsense()
        await scene.server.put("d", data={"v": "1"})
        await scene.clock.sleep(0.0)
        await scene.clock.sleep(0.001)
        scene.check()

    assert play(scenario).informer.counts.lists == 1


def test_lines_that_are_no_json_again_and_again_are_asked_about_no_faster_than_a_failing_server() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        nonsense = transport.Response(200, {}, fake_api_server.Bytes(b"nonsense\n"))
        scene.server.faults.extend([lambda request: nonsense] * 1000)
        await scene.clock.sleep(20.0)
        await scene.server.say_nonsense()
        await scene.clock.sleep(60.0)
        assert "unusable answer" in str(scene.informer.last_error)
        assert 1000 - len(scene.server.faults) < 10

    play(scenario)


def test_a_line_that_is_no_json_whenever_the_watch_is_taken_up_leads_to_a_list() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        scene.server.faults.append(lambda request: transport.Response(200, {}, fake_api_server.Bytes(b"nonsense\n")))
        await scene.clock.sleep(20.0)
        await scene.server.say_nonsense()
        await scene.server.put("d", data={"v": "1"})
        await scene.clock.sleep(5.0)
        assert scene.informer.last_error is None

    scene = play(scenario)
    scene.check()
    assert scene.informer.counts.lists == 2


def test_a_watch_that_is_not_taken_up_again_in_time_is_trouble() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        await scene.clock.sleep(20.0)
        scene.server.hangs = True
        await scene.server.cut_watches()
        await scene.clock.sleep(informers.RECONNECT_S - 1.0)
        assert scene.informer.last_error is None
        await scene.clock.sleep(1.0)
        assert "connection reset" in str(scene.informer.last_error)

    play(scenario)


class _Slow(store.Store[ConfigMap]):
    """Takes its time for each object, as one that cannot be read does, on a clock that goes by what is done."""

    def __init__(self, time: "_Ticking") -> None:
        super().__init__()
        self._time = time

    def put(self, metadata: meta.ObjectMeta, config_map: ConfigMap) -> None:
        self._time.worked_s += 0.01
        super().put(metadata, config_map)


class _Ticking(clock.VirtualClock):
    worked_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.worked_s


@both_lists
def test_others_run_while_a_thousand_objects_come_that_take_long(streaming: bool) -> None:
    time = _Ticking(now_s=1_700_000_000.0)

    async def main() -> tuple[int, float]:
        server = Server(streaming=streaming, chunk_bytes=1 << 12)
        for number in range(1000):
            await server.put(f"a{number}", data={"v": "0"})
        api = client.Client(server, time, rng=random.Random(0))
        settings = reflector.ReflectorSettings(page_size=25)
        informed = [informers.Informer(api, resources.CONFIG_MAPS, _Slow(time), settings=settings) for _ in range(3)]
        tasks = [asyncio.create_task(informer.run()) for informer in informed]
        longest_s, before_s = 0.0, time.worked_s
        while not all(one.synced for one in informed):
            await asyncio.sleep(0)
            longest_s, before_s = max(longest_s, time.worked_s - before_s), time.worked_s
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return sum(one.counts.lists for one in informed), longest_s

    lists, longest_s = time.run(main())
    assert lists == 3
    assert time.worked_s == pytest.approx(30.0)
    assert longest_s < 0.5


def test_an_object_that_stays_unreadable_is_logged_once_until_it_says_something_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.informer.wait_synced()
        for data in (5, 5, 5, "text"):
            await scene.server.put("odd", data=data)
            await scene.clock.sleep(1.0)

    play(scenario)
    assert [item.getMessage() for item in caplog.records if "set aside" in item.getMessage()] == [
        f"set aside invalid object: error=ConfigMap ns/odd: data: found {found}, expected object | null"
        for found in (5, "'text'")
    ]
