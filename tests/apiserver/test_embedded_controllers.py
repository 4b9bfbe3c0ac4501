"""What happens by itself: bookmarks, ends of watches, expiring events, budgets that count again."""

import msgspec

from tests.apiserver.direct_client import CONFIG_MAPS, PODS, Asked, Json, config_map, pod
from windlass.apiserver import embedded_server, registry
from windlass.kube import transport

_EVENTS = "/api/v1/namespaces/default/events"
_BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


async def _follow(asked: Asked, **query: str) -> list[tuple[float, str]]:
    """When which type of event came, until the watch ends."""
    carrier = embedded_server.InProcessTransport(asked.server, asked.clock)
    request = transport.Request("GET", CONFIG_MAPS, (("watch", "true"), *query.items()))
    answer = await carrier.send(request)
    seen = []
    async for chunk in answer.stream:
        seen += [(asked.clock.monotonic_s(), msgspec.json.decode(line)["type"]) for line in chunk.splitlines()]
    return [*seen, (asked.clock.monotonic_s(), "end")]


def test_bookmarks_come_every_minute_and_before_the_end() -> None:
    asked = Asked()
    version = str(asked.server.version)
    seen = asked.clock.run(_follow(asked, resourceVersion=version, allowWatchBookmarks="true", timeoutSeconds="150"))
    assert seen == [(60.0, "BOOKMARK"), (120.0, "BOOKMARK"), (148.0, "BOOKMARK"), (150.0, "end")]


def test_without_bookmarks_a_quiet_watch_is_quiet() -> None:
    asked = Asked()
    version = str(asked.server.version)
    assert asked.clock.run(_follow(asked, resourceVersion=version, timeoutSeconds="90")) == [(90.0, "end")]


def test_a_watch_without_a_limit_ends_by_the_servers() -> None:
    asked = Asked(registry.ServerSettings(longest_watch_s=500.0))
    version = str(asked.server.version)
    assert asked.clock.run(_follow(asked, resourceVersion=version)) == [(500.0, "end")]


def test_a_watch_that_is_not_read_is_ended() -> None:
    asked = Asked(registry.ServerSettings(most_unread=3))
    watched = asked.send("GET", CONFIG_MAPS, watch="true", resourceVersion=asked.server.version).watch
    assert watched is not None
    for name in "abcd":
        asked.ask("POST", CONFIG_MAPS, config_map(name))
    assert watched.is_ended
    assert watched.take() == b""


def test_an_event_goes_an_hour_after_it_was_last_written() -> None:
    asked = Asked()
    event = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "namespace": "default"}, "count": 1}
    asked.ask("POST", _EVENTS, event)
    asked.advance(3000)
    asked.merge(f"{_EVENTS}/e", {"count": 2})
    asked.advance(3000)
    assert asked.ask("GET", f"{_EVENTS}/e")["count"] == 2
    asked.advance(700)
    assert asked.send("GET", f"{_EVENTS}/e").status == 404


def _running(asked: Asked, name: str) -> None:
    asked.ask("POST", PODS, pod(name, app="x"))
    asked.ask("POST", f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": {"name": "n"}})
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    status = {"status": {"phase": "Running", "conditions": [ready]}}
    asked.ask("PATCH", f"{PODS}/{name}/status", status, "application/merge-patch+json")


def test_a_pod_whose_eviction_came_to_nothing_counts_again_after_two_minutes() -> None:
    asked = Asked()
    for name in ("a", "b"):
        _running(asked, name)
    budget: Json = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}}
    asked.ask("POST", _BUDGETS, budget)
    status = {"status": {"disruptionsAllowed": 0, "disruptedPods": {"a": "2023-11-14T22:13:20Z"}}}
    asked.ask("PATCH", f"{_BUDGETS}/b/status", status, "application/merge-patch+json")
    asked.merge(f"{PODS}/b", {"metadata": {"labels": {"app": "x", "y": "z"}}})
    _running(asked, "c")
    found = asked.ask("GET", f"{_BUDGETS}/b")["status"]
    assert (found["currentHealthy"], found["disruptedPods"]) == (2, {"a": "2023-11-14T22:13:20Z"})
    asked.advance(121)
    found = asked.ask("GET", f"{_BUDGETS}/b")["status"]
    asked.ask("GET", f"{_BUDGETS}/b")
    assert (found["currentHealthy"], found["disruptionsAllowed"]) == (3, 2)
    assert "disruptedPods" not in found


def test_an_embedded_server_asks_its_clock_and_no_other() -> None:
    asked = Asked()
    made = asked.ask("POST", CONFIG_MAPS, config_map("a", x="1"))
    assert made["metadata"]["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert made["metadata"]["managedFields"][0]["time"] == "2023-11-14T22:13:20Z"
