"""Loading YAML, and cutting real definitions down to what is served."""

import pytest

from tests.apiserver.direct_client import Asked, Json
from windlass.apiserver import crd_strategy, status_errors

_VERSION: Json = {
    "served": True,
    "schema": {
        "openAPIV3Schema": {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "x-kubernetes-validations": [{"rule": "self.a > 0"}],
                    "properties": {"a": {"type": "integer"}, "x-kubernetes-validations": {"type": "string"}},
                }
            },
        }
    },
}
_DEFINITION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com", "labels": {"keep": "me"}, "resourceVersion": "5"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "things", "kind": "Thing"},
        "conversion": {"strategy": "Webhook"},
        "versions": [{"name": "v1alpha1", "storage": False, **_VERSION}, {"name": "v1", "storage": True, **_VERSION}],
    },
}


def test_a_definition_with_more_is_refused_whole() -> None:
    with pytest.raises(status_errors.StatusError) as refused:
        Asked().server.apply(_DEFINITION)
    assert refused.value.code == 422
    for path in ("spec.versions: Forbidden", "spec.conversion.strategy: Forbidden", "x-kubernetes-validations: Forbid"):
        assert path in refused.value.message


@pytest.mark.parametrize(("wanted", "served"), [("", "v1"), ("v1alpha1", "v1alpha1")])
def test_narrowed_to_one_version_it_is_served(wanted: str, served: str) -> None:
    asked = Asked()
    asked.server.apply(crd_strategy.narrow_crd(_DEFINITION, wanted))
    thing = {"metadata": {"name": "x"}, "spec": {"a": 1, "x-kubernetes-validations": "a field"}}
    made = asked.ask("POST", f"/apis/example.com/{served}/things", thing)
    assert made["spec"] == {"a": 1, "x-kubernetes-validations": "a field"}


def test_documents_are_loaded_in_order() -> None:
    asked = Asked()
    asked.server.load(
        """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: cats.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: cats, kind: Cat}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: example.com/v1
kind: Cat
metadata: {name: tom, namespace: default}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
"""
    )
    assert asked.ask("GET", "/apis/example.com/v1/namespaces/default/cats/tom")["kind"] == "Cat"
    assert asked.ask("GET", "/api/v1/nodes/n1")["kind"] == "Node"


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(status_errors.StatusError, match='no matches for kind "Nope"'):
        Asked().server.apply({"apiVersion": "v9", "kind": "Nope", "metadata": {"name": "x"}})
