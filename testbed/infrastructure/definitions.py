"""The fake infrastructure's own kinds, by Cluster API's v1beta2 contract."""

from collections.abc import Iterable
from typing import Any

Object = dict[str, Any]

GROUP = "infrastructure.cluster.x-k8s.io"
VERSION = "v1beta1"
_ANYTHING: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

_WHOLE = frozenset({"FakeMachine"})
"""Kinds whose spec and status are written together: an instance gets its providerID when it is provisioned, and Cluster
API looks at a Machine after every write to its infrastructure."""

_SPECS: dict[str, Object] = {
    "FakeCluster": {"controlPlaneEndpoint": _ANYTHING},
    "FakeMachine": {"providerID": {"type": "string"}},
    "FakeMachineTemplate": {"template": _ANYTHING},
    "FakeMachinePool": {"providerIDList": {"type": "array", "items": {"type": "string"}}},
}


def every() -> list[Object]:
    return [_definition(kind, fields) for kind, fields in _SPECS.items()]


def of_kinds(kinds: Iterable[str]) -> list[Object]:
    """Definitions of further kinds, with any spec; nothing looks after their objects."""
    return [_definition(kind, {}) for kind in kinds]


def _definition(kind: str, fields: Object) -> Object:
    singular = kind.lower()
    plural = singular + "s"
    # The label says which of the versions speaks the contract; references to the kinds carry no version.
    labels = {"cluster.x-k8s.io/v1beta2": VERSION, "cluster.x-k8s.io/provider": "infrastructure-fake"}
    names = {"kind": kind, "listKind": kind + "List", "plural": plural, "singular": singular}
    schema = {"type": "object", "properties": {"spec": {**_ANYTHING, "properties": fields}, "status": _ANYTHING}}
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {} if kind in _WHOLE else {"status": {}},
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [
            {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
            {"name": "Message", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].message'},
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "labels": labels},
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]},
    }
