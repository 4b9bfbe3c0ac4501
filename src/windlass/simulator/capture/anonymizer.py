"""Anonymizer: a captured scenario with keyed hashes in place of names, so that it can be shared.

The same name with the same key always gets the same hash, in every file. Kept are names that Kubernetes or the vendor
of a device gave (`kube-system`, `kubernetes.io/arch`, `nvidia.com/gpu`), amounts, times, and flags that hold no names.
"""

import hmac
from collections.abc import Callable, Mapping
from typing import Any

from windlass.engine.model import facts

Plain = dict[str, Any]

_DIGITS = 10

_WELL_KNOWN_NAMESPACES = frozenset({"default", "kube-system"})

_WELL_KNOWN_DOMAINS = ("kubernetes.io", "k8s.io", "nvidia.com", "amd.com", "intel.com")

_KEPT_VALUES = frozenset({"kubernetes.io/arch", "kubernetes.io/os"})
"""Labels whose values name no part of a cluster."""

_KEPT_WORDS = frozenset({"", "true", "false"})

_NAME_FLAGS = frozenset({
    "allowed-scheduler-names", "balancing-ignore-label", "balancing-label", "bypassed-scheduler-names",
    "check-capacity-processor-instance", "gpu-total", "startup-taint", "startup-taint-prefix", "status-taint",
})  # fmt: skip
"""Flags whose values hold names."""


class Anonymizer:
    """Replaces names by hashes with one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def anonymize(self, plain: Plain, left_out: tuple[str, ...] = ()) -> tuple[Plain, tuple[str, ...]]:
        """The scenario without names, and what it lacks, flags with names included."""
        dropped = sorted(_NAME_FLAGS & plain.get("flags", {}).keys())
        lines: dict[str, Callable[[Any], Any]] = {
            "flags": lambda given: {name: value for name, value in given.items() if name not in _NAME_FLAGS},
            "groups": lambda groups: [self._hide_group(group) for group in groups],
            "workloads": lambda workloads: [self._hide_workload(workload) for workload in workloads],
            "buffers": lambda buffers: [self._hide_references(buffer) for buffer in buffers],
            "timeline": lambda steps: [self._hide_references(step) for step in steps],
        }
        hidden_copy = {field: lines[field](value) if field in lines else value for field, value in plain.items()}
        hidden_copy |= {"name": self._hash("cluster", plain["name"]), "story": "Captured; names are hashed."}
        return hidden_copy, tuple(sorted({*left_out, *(f"the flag --{name}" for name in dropped)}))

    def _hash(self, prefix: str, name: str) -> str:
        digest = hmac.new(self._key, name.encode(), "sha256").hexdigest()
        return f"{prefix}-{digest[:_DIGITS]}"

    def _hide_group(self, group: Plain) -> Plain:
        hidden_copy = {**group, "name": self._hash("group", group["name"])}
        if "zones" in group:
            hidden_copy["zones"] = [self._hide_zone(zone) for zone in group["zones"]]
        if "labels" in group:
            hidden_copy["labels"] = self._hide_labels(group["labels"])
        if "taints" in group:
            hidden_copy["taints"] = [self._hide_taint(taint) for taint in group["taints"]]
        return self._hide_amounts(hidden_copy)

    def _hide_workload(self, workload: Plain) -> Plain:
        hidden_copy = {**workload, "name": self._hash("workload", workload["name"])}
        if "namespace" in workload:
            hidden_copy["namespace"] = self._hide_namespace(workload["namespace"])
        if "node_selector" in workload:
            hidden_copy["node_selector"] = self._hide_labels(workload["node_selector"])
        if "tolerations" in workload:
            hidden_copy["tolerations"] = [self._hide_taint(toleration) for toleration in workload["tolerations"]]
        return self._hide_amounts(hidden_copy)

    def _hide_references(self, part: Plain) -> Plain:
        hidden = {"workload": "workload", "group": "group"}
        references = {
            field: self._hash(hidden[field], value) if field in hidden else value for field, value in part.items()
        }
        if "zone" in part:
            references["zone"] = self._hide_zone(part["zone"])
        return references

    def _hide_zone(self, zone: str) -> str:
        return self._hash("zone", zone)

    def _hide_namespace(self, namespace: str) -> str:
        return namespace if namespace in _WELL_KNOWN_NAMESPACES else self._hash("namespace", namespace)

    def _hide_labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        return {self._hide_key(key): self._hide_value(key, value) for key, value in labels.items()}

    def _hide_taint(self, taint: Plain) -> Plain:
        hidden_copy = {**taint, "key": self._hide_key(taint["key"])}
        if "value" in taint:
            hidden_copy["value"] = self._hide_value(taint["key"], taint["value"])
        return hidden_copy

    def _hide_key(self, key: str) -> str:
        return key if _is_well_known(key) else self._hash("label", key)

    def _hide_value(self, key: str, value: str) -> str:
        if key == facts.ZONE:
            return self._hide_zone(value)
        return value if key in _KEPT_VALUES or value in _KEPT_WORDS else self._hash("value", value)

    def _hide_amounts(self, part: Plain) -> Plain:
        """Names of extended resources that only one cluster has."""
        fields = [field for field in ("capacity", "reserved", "requests") if field in part]
        hidden: Plain = {
            field: {self._hide_resource(name): amount for name, amount in part[field].items()} for field in fields
        }
        return part | hidden

    def _hide_resource(self, name: str) -> str:
        is_kept = "/" not in name or _is_well_known(name)
        return name if is_kept else f"{self._hash('resource', name)}.example/device"


def _is_well_known(key: str) -> bool:
    domain, slash, _ = key.partition("/")
    return bool(slash) and any(
        domain == well_known_domain or domain.endswith(f".{well_known_domain}")
        for well_known_domain in _WELL_KNOWN_DOMAINS
    )
