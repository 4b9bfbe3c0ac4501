"""Which of two MachineSets of one name holds."""

import pytest

from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import MachineAuthority, MachineSetPair


def machine_set(status: str = "", wanted: str = "MachineAPI") -> machine_apis.Json:
    return {"spec": {"authoritativeAPI": wanted}, "status": {"authoritativeAPI": status}}


@pytest.mark.parametrize(
    ("status", "holder"),
    [
        ("MachineAPI", machine_apis.MACHINE_API),
        ("ClusterAPI", machine_apis.CLUSTER_API),
        ("Migrating", None),
        ("", None),
    ],
)
def test_the_status_of_the_machine_api_set_says_which_of_the_two_holds(
    status: str, holder: machine_apis.MachineApi | None
) -> None:
    assert MachineSetPair("a", machine_set(status), {}).holder is holder


def test_what_is_wanted_does_not_hold_until_it_is_the_case() -> None:
    found = MachineSetPair("a", machine_set("MachineAPI", "ClusterAPI"), {})
    assert found.holder is machine_apis.MACHINE_API
    assert machine_apis.parse_desired_authority(machine_set("MachineAPI", "ClusterAPI")) is MachineAuthority.CLUSTER_API


def test_what_is_in_cluster_api_alone_is_cluster_apis() -> None:
    assert MachineSetPair("a", None, {}).holder is machine_apis.CLUSTER_API


def test_a_server_that_knows_nothing_of_authority_has_machine_api_alone() -> None:
    assert MachineSetPair("a", {"spec": {"replicas": 1}}, {}).holder is machine_apis.MACHINE_API


def test_nothing_is_held_by_nobody() -> None:
    assert MachineSetPair("a").holder is None


def test_a_word_that_is_not_known_is_as_good_as_none() -> None:
    assert machine_apis.parse_authority(machine_set("Whatever")) is MachineAuthority.UNSET


@pytest.mark.parametrize(
    ("api_version", "api"),
    [
        ("machine.openshift.io/v1beta1", machine_apis.MACHINE_API),
        ("cluster.x-k8s.io/v1beta1", machine_apis.CLUSTER_API),
        ("cluster.x-k8s.io/v1beta2", machine_apis.CLUSTER_API),
        ("cluster.x-k8s.io/v1alpha4", None),
        ("machine.openshift.io", None),
        ("apps/v1", None),
        ("", None),
    ],
)
def test_an_api_is_found_by_group_and_version(api_version: str, api: machine_apis.MachineApi | None) -> None:
    assert machine_apis.find_machine_api(api_version) is api


def test_annotations_begin_with_the_group_of_their_api() -> None:
    assert machine_apis.CLUSTER_API.min_size == "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
    assert machine_apis.MACHINE_API.delete_machine == "machine.openshift.io/delete-machine"
    assert [api.mirror for api in machine_apis.MACHINE_APIS] == [machine_apis.CLUSTER_API, machine_apis.MACHINE_API]
