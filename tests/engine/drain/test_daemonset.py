import pytest

from tests.engine.drain import builders
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
    found = pod_status.check_daemonset(pod, builders.context())
    assert found is not None
    assert found.action is drainability.DrainAction.DRAIN


@pytest.mark.parametrize("value", ["false", "True", ""])
def test_other_pods_are_no_concern(value: str) -> None:
    assert pod_status.check_daemonset(builders.pod(annotations={ANNOTATION: value}), builders.context()) is None
