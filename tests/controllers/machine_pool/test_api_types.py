"""The contract with providers, and Cluster API's names."""

import pytest

from windlass import selectors
from windlass.controllers.machine_pool import api_types, model


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("MachinePool", "machinepools"),
        ("AWSManagedMachinePool", "awsmanagedmachinepools"),
        ("RKE2Config", "rke2configs"),
        ("PoolA", "poola"),  # looks like a plural
        ("Policy", "policies"),
        ("Gateway", "gateways"),
        ("Ingress", "ingresses"),
        ("Status", "statuses"),
        ("Class", "classes"),
        ("Box", "boxes"),
        ("Index", "indices"),
        ("Matrix", "matrices"),
        ("Analysis", "analyses"),
        ("Metadata", "metadata"),
        ("Series", "series"),
        ("Basis", "bases"),
        ("Quota", "quotas"),
        ("Echo", "echoes"),
        ("Photo", "photos"),
        ("Leaf", "leaves"),
        ("Quiz", "quizzes"),
        ("Machines", "machines"),
    ],
)
def test_a_definition_is_named_by_the_plural_of_its_kind(kind: str, name: str) -> None:
    assert api_types.crd_name("example.com", kind) == f"{name}.example.com"


def test_a_plural_stays_as_it_is() -> None:
    words = ["policies", "boxes", "indices", "children", "data", "machinepools"]
    assert [api_types.pluralize(word) for word in words] == words


@pytest.mark.parametrize(
    ("labels", "chosen"),
    [
        ({}, None),
        ({"cluster.x-k8s.io/v1beta1": ""}, None),
        ({"cluster.x-k8s.io/v1alpha4": "v1alpha4"}, None),
        ({"cluster.x-k8s.io/v1beta1": "v1beta1"}, ("v1beta1", "v1beta1")),
        ({"cluster.x-k8s.io/v1beta2": "v1beta1"}, ("v1beta2", "v1beta1")),
        ({"cluster.x-k8s.io/v1beta1": "v1", "cluster.x-k8s.io/v1beta2": "v1beta1"}, ("v1beta2", "v1beta1")),
        ({"cluster.x-k8s.io/v1beta2": "v1alpha3_v1beta1_v1beta2"}, ("v1beta2", "v1beta2")),
        ({"cluster.x-k8s.io/v1beta2": "v1_v2beta1_v1beta2"}, ("v1beta2", "v1")),
        ({"cluster.x-k8s.io/v1beta2": "v1beta2_v10_v2"}, ("v1beta2", "v10")),
    ],
)
def test_the_newest_contract_and_version_that_labels_name_are_chosen(
    labels: dict[str, str], chosen: tuple[str, str] | None
) -> None:
    assert api_types.choose_contract_version(labels) == chosen


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pool", "pool"),
        ("a" * 63, "a" * 63),
        ("pool-" + "x" * 70, "hash_YSBc6g_z"),
        ("machines-" + "x" * 60, "hash_7_Pdvg_z"),
        ("-pool", model.label_value("-pool")),
        ("", ""),
    ],
)
def test_a_name_that_may_not_be_a_label_is_hashed(name: str, value: str) -> None:
    assert model.label_value(name) == value
    assert not selectors.check_label_value(model.label_value(name))
