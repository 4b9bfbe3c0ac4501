"""Drain rules about a pod's kind and phase: DaemonSet, mirror, long-terminating and terminal pods."""

import itertools

import pytest

from tests.engine.drainability import builders
from windlass.engine.drainability import pod_status
from windlass.engine.model import drainability, facts

ANNOTATION = "cluster-autoscaler.kubernetes.io/daemonset-pod"


@pytest.mark.parametrize(
    "pod",
    [
        builders.owned("apps/v1", "DaemonSet"),
        builders.owned("kruise.io/v1", "DaemonSet"),
        builders.owned("kruise.io/v1", "CustomDaemonSet", annotations={ANNOTATION: "true"}),
        builders.pod(owner=None, annotations={ANNOTATION: "true"}),
    ],
)
def test_pods_of_daemonsets_and_pods_annotated_as_such_may_go(pod: facts.Pod) -> None:
    status = pod_status.check_daemonset(pod, builders.context())
    assert status is not None
    assert status.action is drainability.DrainAction.DRAIN


@pytest.mark.parametrize("value", ["false", "True", ""])
def test_pods_without_the_daemonset_annotation_are_no_concern(value: str) -> None:
    assert pod_status.check_daemonset(builders.pod(annotations={ANNOTATION: value}), builders.context()) is None


@pytest.mark.parametrize(
    ("grace_s", "deleted_ago_s", "left"),
    [
        (None, 60, False),
        (None, 60.5, True),
        (0.0, 30, False),
        (0.0, 31, True),
        (360.0, 390, False),
        (360.0, 391, True),
        (30.0, -10, False),
    ],
)
def test_pod_is_left_once_its_grace_and_half_a_minute_are_over(
    grace_s: float | None, deleted_ago_s: float, left: bool
) -> None:
    pod = builders.pod(deleted_s=builders.NOW_S - deleted_ago_s, grace_s=grace_s)
    status = pod_status.check_long_terminating(pod, builders.context())
    assert (status is not None) is left
    assert status is None or status.action is drainability.DrainAction.SKIP


def test_pod_that_nobody_deletes_is_no_concern() -> None:
    assert pod_status.check_long_terminating(builders.pod(grace_s=0.0), builders.context()) is None


@pytest.mark.parametrize("value", ["hash", ""])
def test_mirror_pod_is_left_whatever_the_annotation_says(value: str) -> None:
    status = pod_status.check_mirror(
        builders.pod(annotations={"kubernetes.io/config.mirror": value}), builders.context()
    )
    assert status is not None
    assert status.action is drainability.DrainAction.SKIP


def test_pods_without_the_mirror_annotation_are_no_concern() -> None:
    assert pod_status.check_mirror(builders.pod(), builders.context()) is None


ENDED = {("Failed", policy) for policy in ("Always", "OnFailure", "Never")} | {
    ("Succeeded", "OnFailure"),
    ("Succeeded", "Never"),
}


@pytest.mark.parametrize(
    ("phase", "policy"),
    list(
        itertools.product(
            ["Pending", "Running", "Succeeded", "Failed", "Unknown"],
            ["Always", "OnFailure", "Never"],
        )
    ),
)
def test_only_pods_that_are_not_started_again_have_ended(phase: str, policy: str) -> None:
    status = pod_status.check_terminal(builders.pod(phase=phase, restart_policy=policy), builders.context())
    assert (status is not None) is ((phase, policy) in ENDED)
    assert status is None or status.action is drainability.DrainAction.DRAIN
