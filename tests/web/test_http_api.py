"""The HTTP API: what a live process answers is what docs/reference/http-api.schema.json says."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests import json_schema
from tests.web import dashboard_process
from tools import reference_pages, source_analysis

SCHEMA = json.loads((reference_pages.FOLDER / "http-api.schema.json").read_text(encoding="utf-8"))["$defs"]
SCENARIO = source_analysis.ROOT / "scenarios" / "burst.yaml"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with dashboard_process.play(SCENARIO, 20.0) as stage:
        yield stage.url.rstrip("/")


def get(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=30) as answer:
        assert answer.headers.get_content_type() == "application/json"
        return json.load(answer)


def faults(value: Any, definition: str) -> list[str]:
    return list(json_schema.find_faults(value, SCHEMA[definition], SCHEMA))


@pytest.fixture(scope="module")
def status(url: str) -> Any:
    """One that has everything: groups, nodes, pods that wait, decisions."""
    end_s = time.monotonic() + 120
    while time.monotonic() < end_s:
        try:
            found = get(f"{url}/published")
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise
        else:
            if all(found[part] for part in ("groups", "nodes", "pending", "decisions", "samples")):
                return found
        time.sleep(0.2)
    raise AssertionError("there was never a pending pod beside a decision")


def test_the_status(status: Any) -> None:
    assert faults(status, "PublishedStatus") == []


@pytest.mark.parametrize(("kind", "definition"), [("node", "NodeExplanation"), ("group", "GroupExplanation")])
def test_explanations(url: str, status: Any, kind: str, definition: str) -> None:
    name = {"node": status["nodes"][0]["name"], "group": status["groups"][0]["id"]}[kind]
    assert faults(get(f"{url}/explain/{kind}/{name}"), definition) == []


def test_explanations_of_pods(url: str, status: Any) -> None:
    """Of pods that were pending: one that has ended meanwhile is not there any more."""
    found = []
    for pending in status["pending"]:
        try:
            found.append(get(f"{url}/explain/pod/{pending['pod']}"))
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
    assert found
    assert [fault for answer in found for fault in faults(answer, "PodExplanation")] == []


def test_the_history_and_its_decisions(url: str, status: Any) -> None:
    found = get(f"{url}/published/history")
    assert found["samples"]
    assert faults(found, "PublishedHistory") == []
    for decision in found["decisions"]:
        report = get(f"{url}/published/decisions/{decision['number']}")
        assert faults(report, "DecisionReport") == []
        assert report["decision"] == decision
    assert any("options" in report["detail"] for report in [get(f"{url}/published/decisions/0")])


def test_the_cluster(url: str, status: Any) -> None:
    assert status["cluster"]["nodes"] > 0
    assert faults(get(f"{url}/statusz"), "ClusterExplanation") == []


def test_the_stream(url: str, status: Any) -> None:
    found: dict[str, Any] = {}
    with urllib.request.urlopen(f"{url}/published/stream", timeout=60) as stream:
        event = ""
        for line in stream:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                event = value
            elif name == "data":
                found[event] = json.loads(value)
            if found.keys() >= {"status", "change"}:
                break
    assert faults(found["status"], "PublishedStatus") == []
    assert faults(found["change"], "StatusChange") == []


def test_what_is_wrong_is_noticed(status: Any) -> None:
    for path, value in (("nodes", None), ("groups", [{"id": 1}]), ("samples", [[0.0]]), ("other", 1)):
        assert faults({**status, path: value}, "PublishedStatus"), path
    node = {**status["nodes"][0], "state": "asleep"}
    (fault,) = faults({**status, "nodes": [node]}, "PublishedStatus")
    assert fault.startswith("$.nodes[0].state: 'asleep' is none of")
