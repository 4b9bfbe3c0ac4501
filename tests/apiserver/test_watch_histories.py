"""Whatever is written, in whatever order: lists, pages and watches tell the same story."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.apiserver.direct_client import CONFIG_MAPS, Asked, Json, config_map

_NAMES = st.sampled_from("abcdef")
_operations = st.lists(
    st.tuples(st.sampled_from(["create", "patch", "delete"]), _NAMES, st.integers(0, 3)), max_size=25
)


def _run(asked: Asked, operation: tuple[str, str, int]) -> None:
    verb, name, number = operation
    match verb:
        case "create":
            obj = config_map(name, n=str(number))
            obj["metadata"]["labels"] = {"odd": str(number % 2)}
            asked.send("POST", CONFIG_MAPS, obj)
        case "patch":
            patch = {"data": {"n": str(number)}, "metadata": {"labels": {"odd": str(number % 2)}}}
            asked.send("PATCH", f"{CONFIG_MAPS}/{name}", patch, "application/merge-patch+json")
        case "delete":
            asked.send("DELETE", f"{CONFIG_MAPS}/{name}")


def _state(listed: Json) -> dict[str, tuple[str, str]]:
    return {
        item["metadata"]["name"]: (item["metadata"]["resourceVersion"], item["data"]["n"]) for item in listed["items"]
    }


def _lines(asked: Asked, **query: Any) -> list[Json]:
    watched = asked.send("GET", CONFIG_MAPS, watch="true", **query).watch
    assert watched is not None
    return [msgspec.json.decode(line) for line in watched.take().splitlines()]


def _replay(state: dict[str, tuple[str, str]], events: list[Json]) -> dict[str, tuple[str, str]]:
    state = dict(state)
    for event in events:
        obj = event["object"]
        name = obj["metadata"]["name"]
        if event["type"] == "DELETED":
            assert name in state
            del state[name]
        else:
            assert (name in state) is (event["type"] == "MODIFIED")
            state[name] = (obj["metadata"]["resourceVersion"], obj["data"]["n"])
    return state


@settings(max_examples=60, deadline=None)
@given(_operations, _operations)
def test_a_list_and_the_events_since_are_the_list_now(
    before: list[tuple[str, str, int]], after: list[tuple[str, str, int]]
) -> None:
    asked = Asked()
    for operation in before:
        _run(asked, operation)
    listed = asked.ask("GET", CONFIG_MAPS)
    for operation in after:
        _run(asked, operation)
    events = _lines(asked, resourceVersion=listed["metadata"]["resourceVersion"])
    assert _replay(_state(listed), events) == _state(asked.ask("GET", CONFIG_MAPS))


@settings(max_examples=60, deadline=None)
@given(_operations, _operations)
def test_the_same_holds_for_what_a_selector_selects(
    before: list[tuple[str, str, int]], after: list[tuple[str, str, int]]
) -> None:
    asked = Asked()
    for operation in before:
        _run(asked, operation)
    chosen = {"labelSelector": "odd=1"}
    listed = asked.ask("GET", CONFIG_MAPS, **chosen)
    for operation in after:
        _run(asked, operation)
    events = _lines(asked, resourceVersion=listed["metadata"]["resourceVersion"], **chosen)
    assert _replay(_state(listed), events) == _state(asked.ask("GET", CONFIG_MAPS, **chosen))


@settings(max_examples=60, deadline=None)
@given(_operations, _operations, st.integers(1, 4))
def test_pages_together_are_the_list_at_the_first_ones_version(
    before: list[tuple[str, str, int]], between: list[tuple[str, str, int]], limit: int
) -> None:
    asked = Asked()
    for operation in before:
        _run(asked, operation)
    whole = asked.ask("GET", CONFIG_MAPS)
    page = asked.ask("GET", CONFIG_MAPS, limit=limit)
    items = list(page["items"])
    while token := page["metadata"].get("continue"):
        for operation in between:
            _run(asked, operation)
        page = asked.ask("GET", CONFIG_MAPS, limit=limit, **{"continue": token})
        items += page["items"]
    assert items == whole["items"]


@settings(max_examples=40, deadline=None)
@given(_operations)
def test_every_version_can_be_listed_again(operations: list[tuple[str, str, int]]) -> None:
    asked = Asked()
    seen = []
    for operation in operations:
        _run(asked, operation)
        seen.append(asked.ask("GET", CONFIG_MAPS))
    for listed in seen:
        version = listed["metadata"]["resourceVersion"]
        again = asked.ask("GET", CONFIG_MAPS, resourceVersion=version, resourceVersionMatch="Exact")
        assert again["items"] == listed["items"]


@settings(max_examples=40, deadline=None)
@given(_operations)
def test_the_same_requests_get_the_same_bytes(operations: list[tuple[str, str, int]]) -> None:
    asked, other = Asked(), Asked()
    for operation in operations:
        _run(asked, operation)
        _run(other, operation)
    assert asked.send("GET", CONFIG_MAPS).body == other.send("GET", CONFIG_MAPS).body
