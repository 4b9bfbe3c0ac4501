from typing import Any

import pytest

from windlass.kube import errors, unstructured
from windlass.kube.models import meta
from windlass.kube.unstructured import FieldOwner, FieldPath


def entry(manager: str, fields: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsV1": fields, **more}


POD = {
    "metadata": {
        "managedFields": [
            entry(
                "kubectl",
                {
                    "f:metadata": {
                        "f:annotations": {".": {}, "f:example.com/a": {}},
                        "f:finalizers": {".": {}, 'v:"x.io/f"': {}},
                    },
                    "f:spec": {
                        "f:containers": {
                            'k:{"name":"app"}': {".": {}, "f:image": {}, "f:ports": {
                                'k:{"containerPort":80,"protocol":"TCP"}': {".": {}},
                            }},
                        },
                        "f:tolerations": {},
                    },
                },
                operation="Apply",
            ),
            entry("autoscaler", {"f:spec": {"f:replicas": {}}}, subresource="scale"),
            entry("other", {"f:spec": {"f:containers": {'k:{"name":"side"}': {"f:image": {}}}}}),
        ]
    }
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "managers"),
    [
        (("spec", "replicas"), ["autoscaler"]),
        (("spec", "tolerations"), ["kubectl"]),
        (("spec", "tolerations", 0, "key"), ["kubectl"]),
        (("spec", "containers", {"name": "app"}), ["kubectl"]),
        (("spec", "containers", {"name": "app"}, "image"), ["kubectl"]),
        (("spec", "containers", {"name": "side"}, "image"), ["other"]),
        (("spec", "containers", {"name": "side"}), []),
        (("spec", "containers", {"name": "app"}, "ports", {"protocol": "TCP", "containerPort": 80}), ["kubectl"]),
        (("metadata", "annotations", "example.com/a"), ["kubectl"]),
        (("metadata", "annotations"), ["kubectl"]),
        (("metadata", "annotations", "example.com/b"), []),
        (("metadata", "finalizers", "x.io/f"), ["kubectl"]),
        (("spec",), []),
        (("status", "phase"), []),
    ],
)
def test_who_owns_this_path(path: FieldPath, managers: list[str]) -> None:
    assert [owner.manager for owner in unstructured.find_field_owners(POD, path)] == managers


def test_an_owner_is_told_with_how_it_came_to_own() -> None:
    assert unstructured.find_field_owners(POD, ("spec", "replicas")) == [
        FieldOwner("autoscaler", "Update", "scale", "v1")
    ]


def test_an_object_without_managed_fields_has_no_owners() -> None:
    assert unstructured.find_field_owners({"metadata": {}}, ("spec",)) == []


def test_everything_that_someone_owns_can_be_listed() -> None:
    owned = list(unstructured.owned_paths(POD, FieldOwner("kubectl", "Apply", "", "v1")))

    assert ("metadata", "annotations", "example.com/a") in owned
    assert ("metadata", "finalizers", "x.io/f") in owned
    assert ("spec", "containers", {"name": "app"}, "image") in owned
    assert ("spec", "tolerations") in owned
    assert len(owned) == 8


def test_a_refused_apply_says_whose_fields_they_are() -> None:
    causes = [
        meta.StatusCause(
            reason="FieldManagerConflict",
            message='conflict with "cluster-autoscaler" with subresource "scale" using cluster.x-k8s.io/v1beta2',
            field=".spec.replicas",
        ),
        meta.StatusCause(
            reason="FieldManagerConflict",
            message='conflict with "kubectl" using v1 at 2026-01-01T00:00:00Z',
            field=".x",
        ),
        meta.StatusCause(reason="FieldManagerConflict", message='conflict with "argo"', field=".y"),
        meta.StatusCause(reason="Other", message="something else"),
    ]
    refused = errors.Conflict("PATCH /", 409, meta.Status(details=meta.StatusDetails(causes=causes)))

    apply_conflicts = unstructured.parse_apply_conflicts(refused)
    assert [conflict.field for conflict in apply_conflicts] == [".spec.replicas", ".x", ".y"]
    assert [conflict.owner for conflict in apply_conflicts] == [
        FieldOwner("cluster-autoscaler", "Update", "scale", "cluster.x-k8s.io/v1beta2"),
        FieldOwner("kubectl", "Update", "", "v1"),
        FieldOwner("argo", "Apply"),
    ]
