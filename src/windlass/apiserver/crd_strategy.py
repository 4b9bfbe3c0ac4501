"""CustomResourceDefinition strategy: one served version, a structural schema, no CEL rules, no conversion.

A definition with more is refused; `narrow_crd` reduces it to the supported part.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from windlass import selectors
from windlass.apiserver import builtin_types, status_errors, value_types
from windlass.apiserver.strategies import FieldErrors, Strategy
from windlass.apiserver.value_types import Json

VALIDATIONS_KEY = "x-kubernetes-validations"
_HERE = "is left to a real kube-apiserver"

CRD_STRUCT = builtin_types.StructPart(
    "CustomResourceDefinition",
    (
        builtin_types.StructField(
            "apiVersion", builtin_types.ScalarPart("s", value_types.ValueType("string")), False, True
        ),
        builtin_types.StructField("kind", builtin_types.ScalarPart("s", value_types.ValueType("string")), False, True),
        builtin_types.StructField("metadata", builtin_types.find_struct("meta", "ObjectMeta"), False, False),
        builtin_types.StructField("spec", builtin_types.AnyPart(value_types.DEDUCED), True, False),
        builtin_types.StructField("status", builtin_types.AnyPart(value_types.DEDUCED), True, False),
    ),
)


class CrdStrategy(Strategy):
    """CustomResourceDefinitions."""

    counts_generations = True
    needs_version_to_update = True

    def default(self, obj: Json) -> None:
        spec = obj.setdefault("spec", {})
        called = spec.setdefault("names", {})
        if kind := called.get("kind"):
            called.setdefault("singular", kind.lower())
            called.setdefault("listKind", f"{kind}List")
        spec.setdefault("conversion", {"strategy": "None"})

    def new_status(self, obj: Json) -> Json:
        since = obj["metadata"]["creationTimestamp"]
        spec = obj["spec"]

        def hold(kind: str, reason: str, message: str) -> Json:
            condition = {"type": kind, "status": "True", "reason": reason, "message": message}
            return {**condition, "lastTransitionTime": since}

        return {
            "conditions": [
                hold("NamesAccepted", "NoConflicts", "no conflicts found"),
                hold("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            ],
            "acceptedNames": dict(spec.get("names", {})),
            "storedVersions": [version["name"] for version in spec.get("versions", []) if version.get("storage")],
        }

    def validate(self, obj: Json) -> FieldErrors:
        spec = obj["spec"]
        called, versions = spec.get("names", {}), spec.get("versions") or []
        errors = [
            status_errors.field_required(f"spec.{path}")
            for path, value in (
                ("group", spec.get("group")),
                ("scope", spec.get("scope")),
                ("names.plural", called.get("plural")),
                ("names.kind", called.get("kind")),
                ("versions", versions),
            )
            if not value
        ]
        expected = f"{called.get('plural')}.{spec.get('group')}"
        if obj["metadata"].get("name") != expected:
            message = 'must be spec.names.plural+"."+spec.group'
            errors.append(status_errors.field_invalid("metadata.name", obj["metadata"].get("name"), message))
        errors += [
            status_errors.field_invalid("spec.group", spec.get("group"), why)
            for why in selectors.check_dns_subdomain(spec.get("group", ""))
        ]
        if sum(bool(version.get("storage")) for version in versions) != 1:
            message = "must have exactly one version marked as storage version"
            errors.append(status_errors.field_invalid("spec.versions", versions, message))
        for i, version in enumerate(versions):
            if not (version.get("schema") or {}).get("openAPIV3Schema"):
                at = f"spec.versions[{i}].schema.openAPIV3Schema"
                errors.append(status_errors.field_required(at))
        return errors + _refuse_beyond(spec)


def _refuse_beyond(spec: Json) -> FieldErrors:
    """Errors for features that the embedded server does not have."""
    errors: FieldErrors = []
    served = [version["name"] for version in spec.get("versions") or () if version.get("served")]
    if len(served) > 1:
        message = f"this server serves one version of a kind, not {', '.join(served)}: conversion {_HERE}"
        errors.append(status_errors.field_forbidden("spec.versions", message))
    if spec.get("conversion", {}).get("strategy", "None") != "None":
        message = f"conversion by webhook {_HERE}"
        errors.append(status_errors.field_forbidden("spec.conversion.strategy", message))
    for i, version in enumerate(spec.get("versions") or ()):
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        for path in _find_rules(schema, f"spec.versions[{i}].schema.openAPIV3Schema"):
            errors.append(status_errors.field_forbidden(path, f"evaluating CEL rules {_HERE}"))
            break
    return errors


def _find_rules(schema: Any, at: str) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if isinstance(schema.get(VALIDATIONS_KEY), list):
            yield f"{at}.{VALIDATIONS_KEY}"
        for name, part in schema.items():
            yield from _find_rules(part, f"{at}.{name}")
    elif isinstance(schema, list):
        for i, part in enumerate(schema):
            yield from _find_rules(part, f"{at}[{i}]")


def narrow_crd(definition: Json, version: str = "") -> Json:
    """The definition with one served version (the stored one, unless named), without CEL rules and conversion.

    For loading a real project's CRDs into the embedded server; the caller must not rely on the removed parts.
    """
    spec = copy.deepcopy(definition["spec"])
    versions = spec["versions"]
    desired = version or next(version["name"] for version in versions if version.get("storage"))
    kept = next(version for version in versions if version["name"] == desired)
    spec["versions"] = [{**_without_rules(kept), "served": True, "storage": True}]
    spec.pop("conversion", None)
    metadata = {
        name: definition["metadata"][name]
        for name in ("name", "labels", "annotations")
        if name in definition["metadata"]
    }
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": definition["kind"], "metadata": metadata, "spec": spec}


def _without_rules(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_rules(part)
            for name, part in value.items()
            if not (name == VALIDATIONS_KEY and isinstance(part, list))
        }
    return [_without_rules(part) for part in value] if isinstance(value, list) else value
