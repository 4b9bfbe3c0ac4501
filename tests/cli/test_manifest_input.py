"""Every notation in which Kubernetes' own tools write objects, and what is said of texts that are none."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.cli import objects
from tests.cli.run import windlass

OBJECTS = [objects.node("n-a"), objects.node("n-b"), objects.pod("waits"), objects.pod("runs", nodeName="n-a")]
LIST = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": OBJECTS}
TYPED = [
    {
        "apiVersion": "v1",
        "kind": "NodeList",
        "items": [{k: v for k, v in o.items() if k != "kind"} for o in OBJECTS[:2]],
    },
    {
        "apiVersion": "v1",
        "kind": "PodList",
        "items": [{k: v for k, v in o.items() if k != "kind"} for o in OBJECTS[2:]],
    },
]

NOTATIONS: dict[str, Callable[[], str]] = {
    "a list as kubectl prints it": lambda: json.dumps(LIST, indent=4),
    "a compact list": lambda: json.dumps(LIST, separators=(",", ":")),
    "an array": lambda: json.dumps(OBJECTS, indent=2),
    "JSON lines": lambda: "\n".join(json.dumps(one) for one in OBJECTS) + "\n\n",
    "documents one after the other": lambda: "\n".join(json.dumps(one, indent=2) for one in OBJECTS),
    "documents on one line": lambda: " ".join(json.dumps(one) for one in OBJECTS),
    "typed lists": lambda: "\n".join(json.dumps(one) for one in TYPED),
    "YAML documents": lambda: "---\n" + "\n---\n".join(yaml.safe_dump(one) for one in OBJECTS) + "\n---\n",
    "a YAML list": lambda: yaml.safe_dump(LIST),
    "a YAML sequence": lambda: yaml.safe_dump(OBJECTS),
    "YAML in braces": lambda: "\n---\n".join(yaml.safe_dump(one, default_flow_style=True) for one in OBJECTS),
}


@pytest.mark.parametrize("notation", NOTATIONS)
def test_all_notations_say_the_same(notation: str, tmp_path: Path) -> None:
    path = tmp_path / ("cluster.yaml" if "YAML" in notation else "cluster.json")
    path.write_text(NOTATIONS[notation]())
    report = json.loads(windlass("fit", path, "-o", "json").out)

    assert (report["nodes"], report["running"], report["set_aside"]) == (2, 1, [])
    assert [(item["pod"], item["fits"]) for item in report["pending"]] == [("ns/waits", ["n-a", "n-b"])]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_what_a_shell_did_to_the_encoding_does_not_matter(encoding: str) -> None:
    outcome = windlass("fit", "-", "-o", "json", stdin=json.dumps(LIST).encode(encoding))

    assert (outcome.code, json.loads(outcome.out)["nodes"]) == (0, 2)


def test_several_files_are_one_cluster(tmp_path: Path) -> None:
    nodes, pods = tmp_path / "nodes.json", tmp_path / "pods.yaml"
    nodes.write_text(json.dumps(OBJECTS[:2]))
    pods.write_text(yaml.safe_dump(OBJECTS[2:]))

    assert "1 of" not in windlass("fit", nodes, pods).out
    assert "2/2    ns/waits" in windlass("fit", nodes, pods).out
    assert "2/2    ns/waits" in windlass("fit", nodes, "-", stdin=pods.read_bytes()).out


def test_unquoted_text_means_what_it_means_to_kubernetes() -> None:
    text = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {made: 2024-01-02, at: 12:30}, creationTimestamp: 2024-01-02T03:04:05Z}
spec: {unschedulable: off}
status: {allocatable: {cpu: 4, memory: 1e9, pods: 1_0}}
---
apiVersion: v1
kind: Pod
metadata: {namespace: ns, name: p}
spec: {nodeSelector: {made: "2024-01-02", at: "12:30"}, containers: [{resources: {requests: {cpu: 0.5, memory: 1e9}}}]}
"""
    report = json.loads(windlass("fit", "-", "-o", "json", stdin=text.encode()).out)

    assert report["set_aside"] == []
    assert report["pending"][0]["fits"] == ["n1"]


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a.yaml", "a: [1,\nb: 2\n", "a.yaml: line 3, column 1: not YAML: did not find expected"),
        ("a.yaml", "a: b\n  c: d\n", "a.yaml: line 2, column 4: not YAML: mapping values are not allowed"),
        ("a.yaml", "\ta: b\n", "a.yaml: line 1, column 1: not YAML: found character that cannot start any token"),
        ("a.yaml", "kind: *nothing\n", "a.yaml: line 1, column 7: not YAML: found undefined alias"),
        ("a.yaml", "kind: !Ref x\n", "a.yaml: line 1, column 7: could not determine a constructor for the tag '!Ref'"),
        ("a.yaml", "just text\n", "a.yaml: document 1: found 'just text', expected objects such as"),
        ("a.json", '{"a": 1,\n "b": }', "a.json: line 2, column 7: not JSON: "),
        ("a.json", '{"kind": "List", "items": [', "a.json: line 1, column 28: not JSON: input data was truncated"),
        ("a.json", '{"a": 1}\n{"b": }', "a.json: line 2, column 7: not JSON: expecting value"),
        ("a.json", "  \n", "a.json: it is empty, expected objects such as"),
        ("a.json", '{"apiVersion": "apps/v1", "kind": "Deployment"}', "a.json: found no Node and no Pod, expected"),
        ("a.json", '{"kind": "List", "items": []}', "a.json: found no Node and no Pod, expected"),
    ],
)
def test_a_text_that_cannot_be_used_is_refused_with_the_place(
    name: str, text: str, complaint: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    outcome = windlass("fit", tmp_path / name)

    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"windlass: {tmp_path}/{complaint}")
    assert outcome.err.count("\n") == 1


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    outcome = windlass("fit", tmp_path / "nothing.json")

    assert (outcome.code, outcome.err) == (2, f"windlass: {tmp_path}/nothing.json: no such file or directory\n")
    assert windlass("fit", tmp_path).err == f"windlass: {tmp_path}: is a directory\n"
