import pytest

from tests.engine.drain import builders
from windlass.engine.drainability import replicated
from windlass.engine.model import drainability


@pytest.mark.parametrize("skip", [True, False])
def test_pod_without_a_controller_stays(skip: bool) -> None:
    found = replicated.check_replicated(builders.pod(owner=None), builders.context(skip_custom_controllers=skip))
    assert found is not None
    assert found.reason is drainability.BlockingPodReason.NOT_REPLICATED


@pytest.mark.parametrize("kind", ["ReplicationController", "Job", "ReplicaSet", "StatefulSet"])
@pytest.mark.parametrize("skip", [True, False])
def test_pod_of_a_controller_of_kubernetes_may_go(kind: str, skip: bool) -> None:
    assert (
        replicated.check_replicated(builders.owned("v1", kind), builders.context(skip_custom_controllers=skip)) is None
    )


def test_pod_of_a_custom_controller_stays_only_with_the_option() -> None:
    pod = builders.owned("example.com/v1", "Widget")
    assert replicated.check_replicated(pod, builders.context(skip_custom_controllers=False)) is None
    found = replicated.check_replicated(pod, builders.context(skip_custom_controllers=True))
    assert found is not None
    assert "Widget web" in found.text(pod)
