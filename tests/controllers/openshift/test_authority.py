"""Which of two MachineSets of one name holds."""

import pytest

from windlass.controllers.openshift import apis, authority
from windlass.controllers.openshift.authority import Authority, Pair


def machine_set(status: str = "", wanted: str = "MachineAPI") -> authority.Json:
    return {"spec": {"authoritativeAPI": wanted}, "status": {"authoritativeAPI": status}}


@pytest.mark.parametrize(
    ("status", "holder"),
    [("MachineAPI", apis.MACHINE_API), ("ClusterAPI", apis.CLUSTER_API), ("Migrating", None), ("", None)],
)
def test_the_status_of_the_machine_api_set_says_which_of_the_two_holds(status: str, holder: apis.Api | None) -> None:
    assert Pair("a", machine_set(status), {}).holder is holder


def test_what_is_wanted_does_not_hold_until_it_is_the_case() -> None:
    found = Pair("a", machine_set("MachineAPI", "ClusterAPI"), {})
    assert found.holder is apis.MACHINE_API
    assert authority.read_wanted(machine_set("MachineAPI", "ClusterAPI")) is Authority.CLUSTER_API


def test_what_is_in_cluster_api_alone_is_cluster_apis() -> None:
    assert Pair("a", None, {}).holder is apis.CLUSTER_API


def test_a_server_that_knows_nothing_of_authority_has_machine_api_alone() -> None:
    assert Pair("a", {"spec": {"replicas": 1}}, {}).holder is apis.MACHINE_API


def test_nothing_is_held_by_nobody() -> None:
    assert Pair("a").holder is None


def test_a_word_that_is_not_known_is_as_good_as_none() -> None:
    assert authority.read(machine_set("Whatever")) is Authority.UNSET


@pytest.mark.parametrize(
    ("api_version", "api"),
    [
        ("machine.openshift.io/v1beta1", apis.MACHINE_API),
        ("cluster.x-k8s.io/v1beta1", apis.CLUSTER_API),
        ("cluster.x-k8s.io/v1beta2", apis.CLUSTER_API),
        ("cluster.x-k8s.io/v1alpha4", None),
        ("machine.openshift.io", None),
        ("apps/v1", None),
        ("", None),
    ],
)
def test_an_api_is_found_by_group_and_version(api_version: str, api: apis.Api | None) -> None:
    assert apis.find(api_version) is api


def test_annotations_begin_with_the_group_of_their_api() -> None:
    assert apis.CLUSTER_API.min_size == "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
    assert apis.MACHINE_API.delete_machine == "machine.openshift.io/delete-machine"
    assert [api.mirror for api in apis.BOTH] == [apis.CLUSTER_API, apis.MACHINE_API]
