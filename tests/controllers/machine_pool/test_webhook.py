"""Defaulting and validation, in the words of Cluster API's webhook."""

from typing import Any

import pytest

from windlass.controllers.machine_pool import model, webhook


def body(spec: dict[str, Any] | None = None, machine: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    given = {"clusterName": "c", "bootstrap": {"dataSecretName": "s"}, **(machine or {})}
    whole = {"clusterName": "c", "template": {"spec": given}, **(spec or {})}
    return {"metadata": {"name": "p", **metadata}, "spec": whole}


def sizes(least: str, most: str) -> dict[str, str]:
    return {model.MIN_SIZE_ANNOTATION: least, model.MAX_SIZE_ANNOTATION: most}


@pytest.mark.parametrize(
    ("annotations", "asked", "before", "replicas"),
    [
        ({}, None, None, 1),
        ({}, 0, None, 0),
        ({}, None, 5, 1),
        (sizes("2", "9"), None, None, 2),
        (sizes("0", "9"), None, None, 0),
        (sizes("2", "9"), 20, None, 20),
        (sizes("2", "9"), None, 1, 2),
        (sizes("2", "9"), None, 5, 5),
        (sizes("2", "9"), None, 12, 9),
        (sizes("9", "7"), None, None, 9),
        ({model.MIN_SIZE_ANNOTATION: "4"}, None, None, 1),
    ],
)
def test_replicas_that_are_left_out(
    annotations: dict[str, str], asked: int | None, before: int | None, replicas: int
) -> None:
    asked_for = body({} if asked is None else {"replicas": asked}, annotations=annotations)
    old = None if before is None else body({"replicas": before})
    assert webhook.default_machine_pool(asked_for, old)["spec"]["replicas"] == replicas


@pytest.mark.parametrize("size", ["", "two", "1.5", "99999999999"])
def test_sizes_that_are_no_numbers_are_refused(size: str) -> None:
    with pytest.raises(webhook.DefaultingError, match="max-size"):
        webhook.default_machine_pool(body(annotations=sizes("1", size)), None)


def test_defaults_and_what_is_given_stays() -> None:
    made = webhook.default_machine_pool(body(machine={"version": "1.36.3"}), None)
    machine = made["spec"]["template"]["spec"]
    assert made["metadata"]["labels"] == {model.CLUSTER_NAME_LABEL: "c"}
    assert (machine["version"], machine["deletion"]) == ("v1.36.3", {"nodeDeletionTimeoutSeconds": 10})
    given = webhook.default_machine_pool(body(machine={"deletion": {"nodeDeletionTimeoutSeconds": 0}}), None)
    assert given["spec"]["template"]["spec"]["deletion"] == {"nodeDeletionTimeoutSeconds": 0}


def test_v1beta1_spells_the_timeout_its_own_way() -> None:
    made = webhook.default_machine_pool({"apiVersion": "cluster.x-k8s.io/v1beta1", **body()}, None)
    machine = made["spec"]["template"]["spec"]
    assert machine["nodeDeletionTimeout"] == "10s"
    assert "deletion" not in machine


def test_what_is_asked_for_is_not_changed_in_place() -> None:
    asked = body()
    webhook.default_machine_pool(asked, None)
    assert asked == body()


@pytest.mark.parametrize(
    ("made", "before", "complaint"),
    [
        (body(), None, ""),
        (body(machine={"bootstrap": {"dataSecretName": ""}}), None, ""),
        (body(machine={"bootstrap": {"configRef": {"name": "x"}}}), None, ""),
        (body(machine={"bootstrap": {}}), None, "spec.template.spec.bootstrap: Required value"),
        (body(machine={"clusterName": "d"}), None, "must be set to the same value"),
        (body(), body({"clusterName": "d"}), "spec.clusterName: Forbidden: field is immutable"),
        (body(machine={"version": "v1.36"}), None, '"v1.36": must be a valid semantic version'),
        (body(machine={"version": "v1.36.3+build.1"}), None, ""),
        (body(machine={"version": "v01.36.3"}), None, "must be a valid semantic version"),
        (body(machine={"taints": [{"key": "a"}]}), None, "spec.taints: Forbidden"),
    ],
)
def test_validation(made: dict[str, Any], before: dict[str, Any] | None, complaint: str) -> None:
    complaints = webhook.validate_machine_pool(made, before)
    assert bool(complaints) is bool(complaint)
    assert not complaint or complaint in complaints[0]


@pytest.mark.parametrize(
    ("key", "valid"),
    [("a", True), ("example.com/a", True), ("/a", False), ("Example.com/a", False), ("a b", False), ("a" * 64, False)],
)
def test_labels_of_the_template_are_checked(key: str, valid: bool) -> None:
    template = {"metadata": {"labels": {key: "v"}}, "spec": body()["spec"]["template"]["spec"]}
    assert (webhook.validate_machine_pool(body({"template": template}), None) == []) is valid
