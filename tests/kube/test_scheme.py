import msgspec
import pytest

from windlass import errors
from windlass.kube import scheme
from windlass.kube.models import core, pods

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}}


@pytest.mark.parametrize("kind", scheme.KINDS)
def test_every_kind_is_read_by_its_name_with_unknown_fields_passed_over(kind: tuple[str, str]) -> None:
    read = scheme.decode_object(
        {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": "x", "new": 1}, "newer": {}}
    )

    assert type(read) is scheme.KINDS[kind]
    assert type(read).__name__ == kind[1]
    assert read.meta.key == "x"


@pytest.mark.parametrize("kind", scheme.KINDS)
def test_null_is_the_same_as_absent(kind: tuple[str, str]) -> None:
    nulls = dict.fromkeys(("metadata", "spec", "status"))

    assert scheme.decode_object({"apiVersion": kind[0], "kind": kind[1], **nulls}).meta.key == ""


def test_text_and_builtins_are_read_alike() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": 110}}}

    text = msgspec.json.encode(node)
    assert (
        scheme.decode_object(node)
        == scheme.decode_object(text)
        == scheme.decode_object(text.decode())
        == scheme.decode_object(msgspec.Raw(text))
    )


def test_a_pod_keeps_its_spec_as_it_came() -> None:
    pod = scheme.decode_as(pods.Pod, {**POD, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}})

    assert msgspec.json.decode(pod.spec) == {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    assert pods.decode_node_name(pod.spec) == "n"
    assert pods.decode_spec(pod.spec).containers == [pods.Container(name="c")]


def test_a_pod_without_a_spec_has_an_empty_one() -> None:
    for pod in (POD, {**POD, "spec": None}):
        assert pods.decode_spec(scheme.decode_as(pods.Pod, pod).spec) == pods.PodSpec()


@pytest.mark.parametrize(
    ("raw", "kind", "name", "field", "found"),
    [
        (b"{", "object", "without a name", "the object", "Input data was truncated"),
        (b"[]", "object", "without a name", "the object", []),
        ({"kind": 5}, "object", "without a name", "kind", 5),
        ({**POD, "kind": "Pud"}, "Pud", "ns/p", "kind", "v1 Pud"),
        ({**POD, "apiVersion": "v2"}, "Pod", "ns/p", "kind", "v2 Pod"),
        ({**POD, "metadata": {"name": "p", "labels": {"a": 1}}}, "Pod", "p", "metadata.labels[...]", {"a": 1}),
        ({**POD, "metadata": {"name": 3}}, "Pod", "3", "metadata.name", 3),
        ({**POD, "status": {"conditions": [{}, 1]}}, "Pod", "ns/p", "status.conditions[1]", 1),
        (
            {**POD, "metadata": {"name": "p", "creationTimestamp": "today"}},
            "Pod",
            "p",
            "metadata.creationTimestamp",
            "today",
        ),
    ],
)
def test_what_cannot_be_read_is_named(raw: scheme.Raw, kind: str, name: str, field: str, found: object) -> None:
    with pytest.raises(errors.InvalidObject) as caught:
        scheme.decode_object(raw)

    assert (caught.value.kind, caught.value.name, caught.value.field) == (kind, name, field)
    assert caught.value.found == found


def test_builtins_that_json_has_no_word_for_are_refused_like_any_other_object() -> None:
    with pytest.raises(errors.InvalidObject):
        scheme.decode_object({("a", "b"): 1})  # type: ignore[dict-item]


def test_the_controller_is_the_owner_that_says_so() -> None:
    owners = [{"kind": "Node", "name": "n"}, {"kind": "ReplicaSet", "name": "r", "controller": True}]
    pod = scheme.decode_as(pods.Pod, {"metadata": {"name": "p", "ownerReferences": owners}})

    assert pod.meta.controller is not None
    assert pod.meta.controller.name == "r"
    assert scheme.decode_as(core.Node, {}).meta.controller is None
