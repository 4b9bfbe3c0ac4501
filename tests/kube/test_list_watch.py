import asyncio
import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kube.fake_api_server import Server
from windlass import clock
from windlass.kube import client, errors, list_watch, resources
from windlass.kube.models import core

CALL = "GET /watch"


def line(kind: str, found: Any) -> bytes:
    return msgspec.json.encode({"type": kind, "object": found}) + b"\n"


def node(name: str, **rest: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": "5"}, **rest}


STREAM = line("ADDED", node("a")) + line("BOOKMARK", node("")) + b"\n" + line("DELETED", node("ä", spec={"x": "\n"}))


def decode(*chunks: bytes) -> list[list_watch.WatchItem[core.Node]]:
    decoder = list_watch.WatchDecoder(resources.NODES, CALL)
    return [found for chunk in chunks for found in decoder.feed(chunk)]


@given(st.lists(st.integers(0, len(STREAM)), max_size=10))
def test_chunks_may_be_cut_anywhere(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[start:end] for start, end in itertools.pairwise(edges)]

    assert decode(*chunks) == decode(STREAM)
    assert [found.type for found in decode(STREAM) if isinstance(found, list_watch.WatchEvent)] == [
        "ADDED",
        "BOOKMARK",
        "DELETED",
    ]


def test_what_is_left_of_a_line_is_no_event() -> None:
    assert len(decode(STREAM + line("ADDED", node("b"))[:-1])) == 3


def test_a_malformed_object_is_an_event_with_its_name_and_spoils_no_other() -> None:
    block = line("ADDED", node("a")) + line("MODIFIED", node("odd", spec=5)) + line("ADDED", node("b"))

    first, bad, last = decode(block)
    assert isinstance(bad, list_watch.MalformedEvent)
    assert (bad.type, bad.found.metadata.key, bad.found.metadata.resource_version) == ("MODIFIED", "odd", "5")
    assert str(bad.found.error) == "Node odd: spec: found 5, expected object | null"
    assert isinstance(first, list_watch.WatchEvent)
    assert isinstance(last, list_watch.WatchEvent)


def test_an_object_whose_metadata_is_malformed_is_named_as_well_as_it_can_be() -> None:
    broken = {"metadata": {"name": "odd", "namespace": 3, "labels": [], "resourceVersion": "8"}}

    (bad,) = decode(line("ADDED", broken))
    assert isinstance(bad, list_watch.MalformedEvent)
    assert (bad.found.metadata.name, bad.found.metadata.namespace) == ("odd", None)
    assert bad.found.metadata.resource_version == "8"


@pytest.mark.parametrize("resource", [resources.NODES, resources.CONFIG_MAPS, resources.NODES.untyped()])
def test_an_error_in_the_stream_is_what_it_would_be_as_an_answer(resource: resources.Resource[Any]) -> None:
    said = {"kind": "Status", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410, "message": "old"}
    decoder = list_watch.WatchDecoder(resource, CALL)

    first, failed = decoder.feed(line("ADDED", node("a")) + line("ERROR", said))
    assert isinstance(first, list_watch.WatchEvent)
    assert isinstance(failed, list_watch.WatchFailed)
    assert isinstance(failed.error, errors.Gone)
    assert failed.error.message == "old"


def test_what_is_no_watch_stream_is_an_unusable_answer() -> None:
    with pytest.raises(errors.InvalidResponse, match="<html>"):
        decode(b"<html>\n")


def test_a_line_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_watch, "_LONGEST_LINE_BYTES", 100)

    with pytest.raises(errors.InvalidResponse, match="a line of more than 100 bytes"):
        decode(*[b"x" * 30] * 4)


def test_a_watch_gives_changes_as_they_come_and_raises_what_ends_it() -> None:
    virtual = clock.VirtualClock()

    async def main() -> list[tuple[str, str | None]]:
        server = Server()
        await server.put("a")
        changes = client.Client(server, virtual).watch(resources.CONFIG_MAPS, resource_version="10")
        seen: list[tuple[str, str | None]] = []

        async def happen() -> None:
            await server.put("b")
            await virtual.sleep(1)
            await server.say_error(410, "Expired")

        happening = asyncio.create_task(happen())
        try:
            async for found in changes:
                assert isinstance(found, list_watch.WatchEvent)
                seen.append((found.type, found.object.meta.name))
        except errors.Gone:
            seen.append(("Gone", None))
        await happening
        assert not server._watches
        return seen

    assert virtual.run(main()) == [("ADDED", "a"), ("ADDED", "b"), ("Gone", None)]


def test_a_watch_from_a_forgotten_version_is_refused() -> None:
    virtual = clock.VirtualClock()

    async def main() -> None:
        server = Server()
        await server.put("a")
        server.forget()
        with pytest.raises(errors.Gone):
            await anext(client.Client(server, virtual).watch(resources.CONFIG_MAPS, resource_version="10"))

    virtual.run(main())
