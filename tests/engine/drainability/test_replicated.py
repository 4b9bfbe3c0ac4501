"""Drain rules about controllers: pods without one, and controllers with too few replicas."""

import pytest

from tests.engine.drainability import builders
from windlass.engine.drainability import replicated
from windlass.engine.model import drainability, facts, well_known


def controller(kind: str, replicas: int = 5, namespace: str = "default") -> facts.Controller:
    return facts.Controller(kind, namespace, "web", replicas=replicas)


LOOKED_UP = [
    ("v1", "ReplicationController"),
    ("core/v1", "ReplicationController"),
    ("apps/v1", "ReplicaSet"),
    ("extensions/v1beta1", "ReplicaSet"),
    ("batch/v1", "Job"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
]

NOT_LOOKED_UP = [
    ("kruise.io/v1", "StatefulSet"),
    ("v1", "StatefulSet"),
    ("kruise.io/v1", "DaemonSet"),
    ("v1", "DaemonSet"),
    ("example.com/v1", "Widget"),
    ("not/a/version", "ReplicaSet"),
]


@pytest.mark.parametrize(("api_version", "kind"), LOOKED_UP)
def test_pod_stays_when_its_controller_is_gone(api_version: str, kind: str) -> None:
    status = replicated.check_replica_count(builders.owned(api_version, kind), builders.context())
    assert status is not None
    assert status.reason is drainability.BlockingPodReason.CONTROLLER_NOT_FOUND
    assert status.values == (kind, "web")


@pytest.mark.parametrize(("api_version", "kind"), LOOKED_UP)
def test_controller_of_the_same_name_in_another_namespace_does_not_help(api_version: str, kind: str) -> None:
    status = replicated.check_replica_count(
        builders.owned(api_version, kind), builders.context(controller(kind, namespace="other"))
    )
    assert status is not None


@pytest.mark.parametrize(("api_version", "kind"), LOOKED_UP)
def test_pod_may_go_when_its_controller_exists(api_version: str, kind: str) -> None:
    assert replicated.check_replica_count(builders.owned(api_version, kind), builders.context(controller(kind))) is None


@pytest.mark.parametrize(("api_version", "kind"), NOT_LOOKED_UP)
def test_controllers_of_other_groups_are_not_looked_up(api_version: str, kind: str) -> None:
    assert replicated.check_replica_count(builders.owned(api_version, kind), builders.context()) is None


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController"])
@pytest.mark.parametrize(("replicas", "stays"), [(2, True), (3, False), (4, False)])
def test_pod_stays_below_the_least_number_of_replicas(kind: str, replicas: int, stays: bool) -> None:
    status = replicated.check_replica_count(
        builders.owned("apps/v1", kind), builders.context(controller(kind, replicas), min_replicas=3)
    )
    assert (status is not None) is stays
    assert status is None or status.reason is drainability.BlockingPodReason.MIN_REPLICAS_REACHED


@pytest.mark.parametrize("kind", ["Job", "StatefulSet", "DaemonSet"])
def test_replicas_of_other_kinds_are_not_counted(kind: str) -> None:
    pod = builders.owned("apps/v1", kind)
    assert replicated.check_replica_count(pod, builders.context(controller(kind, 0), min_replicas=3)) is None


def test_pod_annotated_as_a_daemonsets_is_not_asked_for_its_owner() -> None:
    annotated = {well_known.DAEMONSET_POD_ANNOTATION: "true"}
    assert (
        replicated.check_replica_count(
            builders.owned("apps/v1", "ReplicaSet", annotations=annotated), builders.context()
        )
        is None
    )


def test_replication_controller_is_looked_up_even_for_pods_annotated_as_a_daemonsets() -> None:
    annotated = {well_known.DAEMONSET_POD_ANNOTATION: "true"}
    pod = builders.owned("v1", "ReplicationController", annotations=annotated)
    assert replicated.check_replica_count(pod, builders.context()) is not None


def test_nothing_is_asked_without_the_option_without_controllers_or_without_owner() -> None:
    assert replicated.check_replica_count(builders.pod(), builders.context(skip_custom_controllers=False)) is None
    assert replicated.check_replica_count(builders.pod(), builders.context(listed=False)) is None
    assert replicated.check_replica_count(builders.pod(owner=None), builders.context()) is None


@pytest.mark.parametrize("skip", [True, False])
def test_pod_without_a_controller_stays(skip: bool) -> None:
    status = replicated.check_replicated(builders.pod(owner=None), builders.context(skip_custom_controllers=skip))
    assert status is not None
    assert status.reason is drainability.BlockingPodReason.NOT_REPLICATED


@pytest.mark.parametrize("kind", ["ReplicationController", "Job", "ReplicaSet", "StatefulSet"])
@pytest.mark.parametrize("skip", [True, False])
def test_pod_of_a_controller_of_kubernetes_may_go(kind: str, skip: bool) -> None:
    assert (
        replicated.check_replicated(builders.owned("v1", kind), builders.context(skip_custom_controllers=skip)) is None
    )


def test_pod_of_a_custom_controller_stays_only_with_the_option() -> None:
    pod = builders.owned("example.com/v1", "Widget")
    assert replicated.check_replicated(pod, builders.context(skip_custom_controllers=False)) is None
    status = replicated.check_replicated(pod, builders.context(skip_custom_controllers=True))
    assert status is not None
    assert "Widget web" in status.text(pod)
