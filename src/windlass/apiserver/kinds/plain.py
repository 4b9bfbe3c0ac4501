"""Kinds with a default or two: secrets, services, priority classes, device requests."""

import base64
from typing import Any

from windlass.apiserver import status
from windlass.apiserver.kinds.strategy import Errors, Strategy
from windlass.apiserver.types.model import Json


class ConfigMaps(Strategy):
    """ConfigMaps: immutable if they say so."""

    def validate_update(self, new: Json, old: Json) -> Errors:
        if not old.get("immutable"):
            return []
        changed = [name for name in ("data", "binaryData") if new.get(name) != old.get(name)]
        if not new.get("immutable"):
            changed.insert(0, "immutable")
        return [status.forbidden_field(name, "field is immutable when `immutable` is set") for name in changed]


class Secrets(ConfigMaps):
    """Secrets: what is given as text is kept encoded."""

    def default(self, obj: Json) -> None:
        obj.setdefault("type", "Opaque")
        for key, text in (obj.pop("stringData", None) or {}).items():
            obj.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()

    def validate_update(self, new: Json, old: Json) -> Errors:
        errors = super().validate_update(new, old)
        return errors if new["type"] == old["type"] else [*errors, _is_immutable("type", new["type"])]


def _is_immutable(field: str, value: Any) -> status.FieldError:
    return status.wrong(field, value, "field is immutable")


class Services(Strategy):
    """Services."""

    creates_on_update = True

    def default(self, obj: Json) -> None:
        spec = obj["spec"]
        spec.setdefault("sessionAffinity", "None")
        if spec.setdefault("type", "ClusterIP") != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            if not port.get("targetPort"):
                port["targetPort"] = port["port"]


class PriorityClasses(Strategy):
    """PriorityClasses: their value never changes."""

    def default(self, obj: Json) -> None:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def prepare_create(self, obj: Json) -> None:
        obj["metadata"]["generation"] = 1

    def validate_update(self, new: Json, old: Json) -> Errors:
        return (
            []
            if new["value"] == old["value"]
            else [status.forbidden_field("value", "may not be changed in an update.")]
        )


class Counted(Strategy):
    """A kind with no more to it than a generation that its spec's changes raise."""

    counts_generations = True


class DeviceClaims(Strategy):
    """ResourceClaims: what they ask for never changes."""

    def default(self, obj: Json) -> None:
        default_requests(obj["spec"])

    def validate_update(self, new: Json, old: Json) -> Errors:
        return [] if new["spec"] == old["spec"] else [_is_immutable("spec", new["spec"])]


class DeviceClaimTemplates(Strategy):
    """ResourceClaimTemplates."""

    def default(self, obj: Json) -> None:
        default_requests(obj["spec"]["spec"])


def default_requests(spec: Json) -> None:
    """Requests for devices ask for exactly one unless they say otherwise."""
    for request in spec["devices"].get("requests") or ():
        for wanted in [request.get("exactly"), *(request.get("firstAvailable") or ())]:
            if wanted and wanted.setdefault("allocationMode", "ExactCount") == "ExactCount":
                wanted["count"] = wanted.get("count") or 1


class Events(Strategy):
    """Events: a PUT may create one; they expire by themselves."""

    creates_on_update = True
