from typing import Any

import msgspec
import pytest

from windlass import errors
from windlass.kube import resources, scheme
from windlass.kube.models import pods
from windlass.kube.resources import Resource

EVERY: list[Resource[Any]] = [found for found in vars(resources).values() if isinstance(found, Resource)]


@pytest.mark.parametrize("resource", EVERY, ids=lambda resource: resource.plural)
def test_every_resource_is_read_as_the_model_of_its_kind(resource: Resource[Any]) -> None:
    expected = scheme.KINDS[resource.api_version, resource.kind]

    assert resource.model is (pods.DecodedPod if resource is resources.DECODED_PODS else expected)
    assert resource.plural == resource.plural.lower()


def test_every_kind_that_can_be_read_is_a_resource() -> None:
    known = {(resource.api_version, resource.kind) for resource in EVERY}

    missing = {kind for kind in scheme.KINDS if not kind[0].endswith("/v1beta1")} - known
    assert not missing
    assert resources.MACHINES.at("cluster.x-k8s.io/v1beta1").model is resources.MACHINES.model


def test_pods_that_are_kept_hold_no_json() -> None:
    raw = msgspec.json.encode({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c"}]}})

    assert isinstance(resources.PODS.decode(raw).spec, msgspec.Raw)
    spec = resources.DECODED_PODS.decode(raw).spec
    assert spec == pods.PodSpec(node_name="n", containers=[pods.Container(name="c")])


def test_an_item_of_a_list_is_told_what_it_is_when_read_as_json() -> None:
    assert resources.NODES.untyped().decode(b'{"metadata":{"name":"n"}}') == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
    }


def test_metadata_is_read_from_models_and_from_json_alike() -> None:
    raw = b'{"metadata":{"name":"n","labels":{"a":"b"},"finalizers":["f"],"generation":3}}'

    typed, untyped = resources.NODES, resources.NODES.untyped()
    assert typed.metadata(typed.decode(raw)) == untyped.metadata(untyped.decode(raw))


def test_metadata_that_cannot_be_read_is_named() -> None:
    with pytest.raises(errors.InvalidObject, match=r"Node n: metadata\.labels"):
        resources.NODES.untyped().metadata({"metadata": {"name": "n", "labels": 5}})


@pytest.mark.parametrize("raw", [b"", b"{", b"5", b"[]", b'{"metadata":5}', b'{"metadata":{"name":5}}'])
def test_who_cannot_be_made_out_has_no_name(raw: bytes) -> None:
    assert resources.NODES.read_identity(raw).key == ""
    with pytest.raises(errors.InvalidObject, match="without a name"):
        resources.NODES.decode(raw)
