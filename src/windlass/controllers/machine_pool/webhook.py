"""MachinePool admission webhooks: defaulting and validation as Cluster API does them, in both versions. Pure.

Served at the same paths as by Cluster API's manager.
"""

import copy
import re
from collections.abc import Mapping
from typing import Any

from windlass import errors, selectors
from windlass.controllers import admission
from windlass.controllers.machine_pool import model

Json = dict[str, Any]

DEFAULT_NODE_DELETION_TIMEOUT_S = 10

_MAX_INT32 = 2**31 - 1

_NUMERIC_IDENTIFIER = r"(?:0|[1-9]\d*)"

_PRERELEASE_IDENTIFIER = r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"

_SEMANTIC_VERSION = re.compile(
    rf"{_NUMERIC_IDENTIFIER}\.{_NUMERIC_IDENTIFIER}\.{_NUMERIC_IDENTIFIER}(?:-{_PRERELEASE_IDENTIFIER}(?:\.{_PRERELEASE_IDENTIFIER})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


class DefaultingError(errors.WindlassError):
    """A default cannot be computed."""


# Defaulting


def default_machine_pool(asked: Mapping[str, Any], before: Mapping[str, Any] | None) -> Json:
    """The object with defaults set."""
    made: Json = copy.deepcopy(dict(asked))
    spec = made.setdefault("spec", {})
    machine = spec.setdefault("template", {}).setdefault("spec", {})
    made.setdefault("metadata", {}).setdefault("labels", {})[model.CLUSTER_NAME_LABEL] = spec.get("clusterName", "")
    if spec.get("replicas") is None:
        old = ((before or {}).get("spec") or {}).get("replicas")
        spec["replicas"] = default_replicas(made["metadata"].get("annotations") or {}, old, is_new=before is None)
    if made.get("apiVersion") == model.V1BETA1:
        _set_default(machine, "nodeDeletionTimeout", f"{DEFAULT_NODE_DELETION_TIMEOUT_S}s")
    else:
        _set_default(machine.setdefault("deletion", {}), "nodeDeletionTimeoutSeconds", DEFAULT_NODE_DELETION_TIMEOUT_S)
    version = machine.get("version")
    if version and not version.startswith("v"):
        machine["version"] = f"v{version}"
    return made


def _set_default(where: Json, name: str, value: object) -> None:
    if where.get(name) is None:
        where[name] = value


def default_replicas(annotations: Mapping[str, str], old: int | None, *, is_new: bool) -> int:
    """Default replicas: 1; with both autoscaler annotations clamped to their limits."""
    if model.MIN_SIZE_ANNOTATION not in annotations or model.MAX_SIZE_ANNOTATION not in annotations:
        return 1
    least = _parse_size(annotations, model.MIN_SIZE_ANNOTATION)
    most = _parse_size(annotations, model.MAX_SIZE_ANNOTATION)
    if is_new or old is None or old < least:
        return least
    return min(old, most)


def _parse_size(annotations: Mapping[str, str], name: str) -> int:
    text = annotations[name]
    size = selectors.parse_int64(text)
    if size is None or not -_MAX_INT32 - 1 <= size <= _MAX_INT32:
        raise DefaultingError(f'replicas: annotation "{name}": found {text!r}, expected a whole number')
    return size


# Validation


def validate_machine_pool(made: Mapping[str, Any], before: Mapping[str, Any] | None) -> list[str]:
    """Validation errors, each as `field: message`; empty if the object is valid."""
    spec = made.get("spec") or {}
    template = spec.get("template") or {}
    machine = template.get("spec") or {}
    return [
        *_check_bootstrap(machine.get("bootstrap") or {}),
        *_check_cluster_names(spec, machine, None if before is None else before.get("spec") or {}),
        *_check_version(machine.get("version") or ""),
        *_check_taints(machine.get("taints") or ()),
        *_check_metadata(template.get("metadata") or {}),
    ]


def _check_bootstrap(bootstrap: Mapping[str, Any]) -> list[str]:
    if bootstrap.get("configRef") or bootstrap.get("dataSecretName") is not None:
        return []
    at = "spec.template.spec.bootstrap"
    return [f"{at}: Required value: expected either {at}.dataSecretName or {at}.configRef to be populated"]


def _check_cluster_names(
    spec: Mapping[str, Any], machine: Mapping[str, Any], before: Mapping[str, Any] | None
) -> list[str]:
    found = []
    name = spec.get("clusterName") or ""
    if before is not None and (before.get("clusterName") or "") != name:
        found.append("spec.clusterName: Forbidden: field is immutable")
    if name != (machine.get("clusterName") or ""):
        found.append(
            f'spec.clusterName: Invalid value: "{name}": '
            "spec.clusterName and spec.template.spec.clusterName must be set to the same value"
        )
    return found


def _check_version(version: str) -> list[str]:
    if not version:
        return []
    at = f'spec.template.spec.version: Invalid value: "{version}"'
    found = [] if version.startswith("v") else [f"{at}: must be a valid semantic version with a leading v"]
    if not _SEMANTIC_VERSION.fullmatch(version.removeprefix("v")):
        found.append(f"{at}: must be a valid semantic version")
    return found


def _check_taints(taints: object) -> list[str]:
    if not taints:
        return []
    return ["spec.taints: Forbidden: taints feature for MachinePools is not yet implemented"]


def _check_metadata(metadata: Mapping[str, Any]) -> list[str]:
    found = []
    for key, value in (metadata.get("labels") or {}).items():
        if selectors.check_qualified_name(key):
            found.append(f'spec.template.metadata.labels: Invalid value: "{key}": must be a qualified name')
        if selectors.check_label_value(value):
            found.append(f'spec.template.metadata.labels: Invalid value: "{value}": must be a label value')
    bad = [key for key in metadata.get("annotations") or {} if selectors.check_qualified_name(key.lower())]
    at = "spec.template.metadata.annotations: Invalid value"
    return found + [f'{at}: "{key}": must be a qualified name' for key in bad]


def mutating_webhook(asked: admission.AdmissionRequest) -> admission.AdmissionResponse:
    try:
        return admission.AdmissionResponse(mutated=default_machine_pool(asked.object, asked.old_object))
    except DefaultingError as refused:
        return admission.AdmissionResponse(str(refused))


def validating_webhook(asked: admission.AdmissionRequest) -> admission.AdmissionResponse:
    return admission.AdmissionResponse("; ".join(validate_machine_pool(asked.object, asked.old_object)))


WEBHOOKS: Mapping[str, admission.Webhook] = {
    f"/{verb}-cluster-x-k8s-io-{version}-machinepool": hook
    for version in ("v1beta1", "v1beta2")
    for verb, hook in (("mutate", mutating_webhook), ("validate", validating_webhook))
}
