import pytest

from tests.engine.drain import builders
from windlass.engine import facts
from windlass.engine.drain import daemonset, outcome

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
    found = daemonset.decide(pod, builders.context())
    assert found is not None
    assert found.action is outcome.Action.DRAIN


@pytest.mark.parametrize("value", ["false", "True", ""])
def test_other_pods_are_no_concern(value: str) -> None:
    assert daemonset.decide(builders.pod(annotations={ANNOTATION: value}), builders.context()) is None
