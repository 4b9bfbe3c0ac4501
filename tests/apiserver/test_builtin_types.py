"""Built-in kinds take their normal form, whatever they are given."""

from typing import Any

import pytest

from windlass.apiserver import builtin_types, registry


def _read(kind: str, value: Any) -> tuple[Any, list[str]]:
    unknown: list[str] = []
    return builtin_types.find_struct("core", kind).read(value, unknown), unknown


def test_every_built_in_kind_has_a_shape() -> None:
    for kind in (*registry.BUILTIN_KINDS, *registry.EVENT_VIEWS):
        struct = kind.find_struct()
        assert struct.zero()["metadata"] == {}, kind.kind


def test_the_normal_form_is_a_fixed_point() -> None:
    pod = {
        "metadata": {"name": "a", "labels": {}, "annotations": {"x": None}, "creationTimestamp": None},
        "spec": {
            "hostNetwork": False,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": 0.5, "memory": "1024Mi"}}, "env": []}],
        },
    }
    once, _ = _read("Pod", pod)
    twice, unknown = _read("Pod", once)
    assert twice == once
    assert unknown == []
    assert once["metadata"] == {"name": "a", "annotations": {"x": ""}}
    assert once["spec"] == {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}],
    }


def test_what_must_be_written_is_written() -> None:
    found, _ = _read("PodCondition", {"type": "Ready"})
    assert found == {"type": "Ready", "status": "", "lastProbeTime": None, "lastTransitionTime": None}


def test_times_are_told_in_utc() -> None:
    found, _ = _read("PodCondition", {"lastTransitionTime": "2024-01-01T01:02:03.9+01:00"})
    assert found["lastTransitionTime"] == "2024-01-01T00:02:03Z"


def test_unknown_fields_are_dropped_and_found_again() -> None:
    pod = {"spec": {"containers": [{"name": "c", "imge": 1}], "foo": {}}}
    found, unknown = _read("Pod", pod)
    assert found["spec"]["containers"][0].keys() == {"name", "resources"}
    assert sorted(unknown) == ["foo", "imge"]
    paths = builtin_types.find_unknown_fields(pod, builtin_types.find_struct("core", "Pod").type)
    assert paths == ["spec.containers[0].imge", "spec.foo"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"spec": {"priority": "x"}}, "string into Go struct field PodSpec.spec.priority of type int32"),
        ({"spec": {"hostNetwork": 1}}, "number into Go struct field PodSpec.spec.hostNetwork of type bool"),
        ({"spec": {"priority": True}}, "bool into Go struct field PodSpec.spec.priority of type int32"),
        ({"metadata": {"labels": {"a": 1}}}, "number into Go struct field ObjectMeta.metadata.labels of type string"),
    ],
)
def test_values_of_the_wrong_kind_are_named_with_their_place(value: Any, said: str) -> None:
    with pytest.raises(builtin_types.Mismatch) as refused:
        _read("Pod", value)
    assert str(refused.value) == f"json: cannot unmarshal {said}"
