"""Webhook functions: what Cluster API's admission makes of a MachinePool, and what it refuses. Both versions, pure.

made = default(asked, before)           # Refused if replicas cannot be worked out
complaints = validate(made, before)     # empty if it may be stored
"""

import copy
import re
from collections.abc import Mapping
from typing import Any

from windlass import errors, selectors
from windlass.controllers.machine_pool import names

Json = dict[str, Any]

DEFAULT_NODE_DELETION_TIMEOUT_S = 10

_LARGEST = 2**31 - 1
_NUMBER = r"(?:0|[1-9]\d*)"
_WORD = r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_WORD}(?:\.{_WORD})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?", re.ASCII
)
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_NAME_BYTES, _SUBDOMAIN_BYTES = 63, 253


class Refused(errors.WindlassError):
    """The object cannot be completed."""


# Defaulting


def default(asked: Mapping[str, Any], before: Mapping[str, Any] | None) -> Json:
    """The object with what it leaves out filled in."""
    made: Json = copy.deepcopy(dict(asked))
    spec = made.setdefault("spec", {})
    machine = spec.setdefault("template", {}).setdefault("spec", {})
    made.setdefault("metadata", {}).setdefault("labels", {})[names.CLUSTER_NAME_LABEL] = spec.get("clusterName", "")
    if spec.get("replicas") is None:
        old = ((before or {}).get("spec") or {}).get("replicas")
        spec["replicas"] = default_replicas(made["metadata"].get("annotations") or {}, old, is_new=before is None)
    if made.get("apiVersion") == names.V1BETA1:
        _fill(machine, "nodeDeletionTimeout", f"{DEFAULT_NODE_DELETION_TIMEOUT_S}s")
    else:
        _fill(machine.setdefault("deletion", {}), "nodeDeletionTimeoutSeconds", DEFAULT_NODE_DELETION_TIMEOUT_S)
    version = machine.get("version")
    if version and not version.startswith("v"):
        machine["version"] = f"v{version}"
    return made


def _fill(where: Json, name: str, value: object) -> None:
    if where.get(name) is None:
        where[name] = value


def default_replicas(annotations: Mapping[str, str], old: int | None, *, is_new: bool) -> int:
    """One; or, where an autoscaler is to take over (both annotations), within its limits."""
    if names.MIN_SIZE_ANNOTATION not in annotations or names.MAX_SIZE_ANNOTATION not in annotations:
        return 1
    least = _read_size(annotations, names.MIN_SIZE_ANNOTATION)
    most = _read_size(annotations, names.MAX_SIZE_ANNOTATION)
    if is_new or old is None or old < least:
        return least
    return min(old, most)


def _read_size(annotations: Mapping[str, str], name: str) -> int:
    text = annotations[name]
    size = selectors.parse_int64(text)
    if size is None or not -_LARGEST - 1 <= size <= _LARGEST:
        raise Refused(f'replicas: annotation "{name}": found {text!r}, expected a whole number')
    return size


# Validation


def validate(made: Mapping[str, Any], before: Mapping[str, Any] | None) -> list[str]:
    """What is wrong, each as `field: what`; nothing if it may be stored."""
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
    if not _VERSION.fullmatch(version.removeprefix("v")):
        found.append(f"{at}: must be a valid semantic version")
    return found


def _check_taints(taints: object) -> list[str]:
    if not taints:
        return []
    return ["spec.taints: Forbidden: taints feature for MachinePools is not yet implemented"]


def _check_metadata(metadata: Mapping[str, Any]) -> list[str]:
    found = []
    for key, value in (metadata.get("labels") or {}).items():
        if not is_qualified_name(key):
            found.append(f'spec.template.metadata.labels: Invalid value: "{key}": must be a qualified name')
        if not names.is_label_value(value):
            found.append(f'spec.template.metadata.labels: Invalid value: "{value}": must be a label value')
    bad = [key for key in metadata.get("annotations") or {} if not is_qualified_name(key.lower())]
    at = "spec.template.metadata.annotations: Invalid value"
    return found + [f'{at}: "{key}": must be a qualified name' for key in bad]


def is_qualified_name(text: str) -> bool:
    """A name, with or without the domain of whoever gave it."""
    domain, slash, name = text.rpartition("/")
    if slash and not (len(domain) <= _SUBDOMAIN_BYTES and _SUBDOMAIN.fullmatch(domain)):
        return False
    return len(name) <= _NAME_BYTES and _NAME.fullmatch(name) is not None
