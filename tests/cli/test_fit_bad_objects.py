"""One bad object never stops the others: it is named with its field, and they are judged."""

import json
from typing import Any

import pytest

from tests.cli import objects
from tests.cli.run import windlass


def evaluate(*found: objects.Json) -> tuple[dict[str, Any], str, int]:
    """The report on these objects besides a good node and a good pod, what is told of it, and the exit code."""
    text = json.dumps([objects.node("good"), *found, objects.pod("fine")]).encode()
    outcome = windlass("fit", "-", "-o", "json", stdin=text)
    return json.loads(outcome.out), outcome.err, outcome.code


def affinity(expression: Any) -> Any:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


TERM = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"

MISTAKES: dict[str, tuple[objects.Json, str, str]] = {
    "a quantity that is none": (
        objects.pod("bad", cpu="1.5.3"),
        "Pod ns/bad, spec.containers[0].resources.requests[cpu]",
        "found 1.5.3, expected a quantity such as 500m, 2, 1.5Gi or 1e3",
    ),
    "a negative request": (
        objects.pod("bad", cpu="-1"),
        "Pod ns/bad, spec.containers[0].resources.requests[cpu]",
        "found -1, expected a quantity of zero or more",
    ),
    "an unknown operator": (
        objects.pod("bad", affinity=affinity({"key": "disk", "operator": "Equals", "values": ["ssd"]})),
        f"Pod ns/bad, {TERM}.matchExpressions[0].operator",
        "found Equals, expected In, NotIn, Exists, DoesNotExist, Gt or Lt",
    ),
    "In without values": (
        objects.pod("bad", affinity=affinity({"key": "disk", "operator": "In"})),
        f"Pod ns/bad, {TERM}.matchExpressions[0].values",
        "found nothing, expected at least one value for In",
    ),
    "a taint without effect": (
        objects.node("bad", taints=[{"key": "gpu"}]),
        "Node bad, spec.taints[0].effect",
        "found nothing, expected NoSchedule, PreferNoSchedule or NoExecute",
    ),
    "a list where a map should be": (
        objects.pod("bad", nodeSelector=["disk"]),
        "Pod ns/bad, spec.nodeSelector",
        "found ['disk'], expected object | null",
    ),
    "no kind": (
        {"apiVersion": "v1", "metadata": {"name": "bad"}},
        "object bad, kind",
        "found nothing, expected what the object is: v1 and Pod, say",
    ),
    "no apiVersion": (
        {"kind": "Pod", "metadata": {"name": "bad", "namespace": "ns"}},
        "Pod ns/bad, apiVersion",
        "found nothing, expected what the object is: v1 and Pod, say",
    ),
}

JUDGED = {"an unknown operator", "In without values"}
"""What kube-scheduler judges all the same: such a term matches no node."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_object_and_the_field_are_named_and_the_others_judged(mistake: str) -> None:
    bad, where, what = MISTAKES[mistake]
    report, told, code = evaluate(bad)

    assert told == f"\nset aside: {where}\n  {what}\n"
    assert len(report["set_aside"]) == 1
    judged: list[tuple[str, list[str]]] = [("ns/bad", [])] if mistake in JUDGED else []
    assert [(item["pod"], item["fits"]) for item in report["pending"]] == [*judged, ("ns/fine", ["good"])]
    assert code == 0


def test_every_mistake_at_once_is_told_in_order() -> None:
    report, told, _ = evaluate(*(bad for bad, _, _ in MISTAKES.values()))

    assert [line for line in told.splitlines() if line.startswith("set aside: ")] == [
        f"set aside: {where}" for _, where, _ in MISTAKES.values()
    ]
    assert report["pending"][-1]["fits"] == ["good"]


def test_a_check_fails_when_an_object_could_not_be_read() -> None:
    good = json.dumps([objects.node("n"), objects.pod("p")]).encode()
    bad = json.dumps([objects.node("n"), objects.pod("p"), objects.pod("q", cpu="x")]).encode()

    assert windlass("fit", "-", "--check", stdin=good).code == 0
    assert windlass("fit", "-", "--check", stdin=bad).code == 1


def test_a_kind_that_is_misspelt_does_not_vanish_without_a_word() -> None:
    misspelt = {**objects.pod("p"), "kind": "pod"}
    outdated = {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
    unread = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    report, told, _ = evaluate(misspelt, outdated, unread)

    assert report["warnings"] == [
        "passed over 1 of v1 pod: expected v1 Pod",
        "passed over 1 of policy/v1beta1 PodDisruptionBudget: expected policy/v1 PodDisruptionBudget",
    ]
    assert told.splitlines()[1] == "warning: passed over 1 of v1 pod: expected v1 Pod"


def test_pods_on_nodes_that_are_not_there_are_told() -> None:
    report, _, _ = evaluate(objects.pod("p", nodeName="gone"), objects.pod("q", nodeName="good"))

    assert report["warnings"] == ["pods on unknown nodes are ignored: gone"]
    assert report["running"] == 1


@pytest.mark.parametrize("output", ["table", "json"])
def test_nothing_that_can_be_read_is_no_cluster_without_pending_pods(output: str) -> None:
    text = json.dumps([objects.pod("bad", cpu="1.5.3")]).encode()
    outcome = windlass("fit", "-", "-o", output, stdin=text)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("windlass: -: found no Node and no Pod that can be read (Pod ns/bad: spec.containers")
    assert outcome.err.count("\n") == 1
