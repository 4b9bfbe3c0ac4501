"""Strategies of the registry: defaulting, validation and lifecycle of a kind; base class and the simple kinds.

Named like the methods of k8s.io/apiserver's registry strategies (`prepare_create`, `validate_update` …).
"""

import base64
from typing import Any, ClassVar

from windlass import selectors
from windlass.apiserver import builtin_types, status_errors
from windlass.apiserver.value_types import Json

FieldErrors = list[status_errors.FieldError]


class Strategy:
    """The default strategy; others override its methods."""

    counts_generations: ClassVar[bool] = False
    """Does a change of the spec increment the generation?"""
    creates_on_update: ClassVar[bool] = False
    """Does a PUT of an object that is not there create it?"""
    needs_version_to_update: ClassVar[bool] = False
    """Is a PUT without resourceVersion refused?"""
    keeps_posted_status: ClassVar[bool] = False
    status_keeps: ClassVar[tuple[str, ...]] = ("spec",)
    """Fields that a write to the status subresource cannot change."""

    def __init__(self, struct: builtin_types.StructPart) -> None:
        self.has_status = any(field.name == "status" for field in struct.fields)
        self.struct = struct

    def check_name(self, name: str) -> tuple[str, ...]:
        """Errors in the name of an object of this kind."""
        return selectors.check_dns_subdomain(name)

    def default(self, obj: Json) -> None:
        """Set defaults."""

    def prepare_create(self, obj: Json) -> None:
        """Set fields that a client cannot set."""
        if self.has_status and not self.keeps_posted_status:
            obj["status"] = self.new_status(obj)
        if self.counts_generations:
            obj["metadata"]["generation"] = 1

    def new_status(self, obj: Json) -> Json:
        zero: Json = self.struct.zero()["status"]
        return zero

    def prepare_update(self, new: Json, old: Json) -> None:
        """Restore fields that a client cannot change, and increment the generation."""
        if self.has_status:
            _keep_field(new, old, "status")
        if self.counts_generations and new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def prepare_status(self, new: Json, old: Json) -> None:
        """Restore all fields except status, for a write to the status subresource."""
        for name in self.status_keeps:
            _keep_field(new, old, name)

    def validate(self, obj: Json) -> FieldErrors:
        """Errors in a new object, without its metadata."""
        return []

    def validate_update(self, new: Json, old: Json) -> FieldErrors:
        """Errors in a change; by default those of the new object."""
        return self.validate(new)

    def validate_status(self, new: Json, old: Json) -> FieldErrors:
        return []

    def grace_s(self, obj: Json, asked_s: int | None) -> int | None:
        """Grace period of a deletion; None if objects of this kind are deleted at once."""
        return None

    def can_be_removed(self, obj: Json) -> bool:
        """May a terminating object be removed once it has no finalizer?"""
        return True


def _keep_field(new: Json, old: Json, name: str) -> None:
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


NAME_LABEL = "kubernetes.io/metadata.name"

_FINALIZER = "kubernetes"


class NamespaceStrategy(Strategy):
    """Namespaces."""

    def check_name(self, name: str) -> tuple[str, ...]:
        return selectors.check_dns_label(name)

    def default(self, obj: Json) -> None:
        if name := obj["metadata"].get("name"):
            obj["metadata"].setdefault("labels", {})[NAME_LABEL] = name
        obj["status"].setdefault("phase", "Active")

    def new_status(self, obj: Json) -> Json:
        return {"phase": "Active"}

    def prepare_create(self, obj: Json) -> None:
        super().prepare_create(obj)
        finalizers = obj["spec"].setdefault("finalizers", [])
        if _FINALIZER not in finalizers:
            finalizers.append(_FINALIZER)
        obj["metadata"].setdefault("labels", {})[NAME_LABEL] = obj["metadata"]["name"]

    def prepare_update(self, new: Json, old: Json) -> None:
        super().prepare_update(new, old)
        new["spec"] = old["spec"]

    def validate_update(self, new: Json, old: Json) -> FieldErrors:
        name, label = new["metadata"]["name"], (new["metadata"].get("labels") or {}).get(NAME_LABEL)
        return (
            []
            if label == name
            else [status_errors.field_invalid(f"metadata.labels[{NAME_LABEL}]", label, f"must be {name}")]
        )

    def can_be_removed(self, obj: Json) -> bool:
        return not obj["spec"].get("finalizers")


_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class NodeStrategy(Strategy):
    """Nodes."""

    keeps_posted_status = True

    def default(self, obj: Json) -> None:
        if "capacity" in obj["status"]:
            obj["status"].setdefault("allocatable", dict(obj["status"]["capacity"]))

    def validate(self, obj: Json) -> FieldErrors:
        # The real server reports metadata.taints, too.
        return _validate_taints(obj["spec"].get("taints") or [], "metadata.taints")

    def validate_update(self, new: Json, old: Json) -> FieldErrors:
        errors = self.validate(new)
        for name, said in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
            before = old["spec"].get(name)
            if before and new["spec"].get(name) != before:
                reason = f'node updates may not change {said} except from "" to valid'
                errors.append(status_errors.field_forbidden(f"spec.{name}", reason))
        return errors


def _validate_taints(taints: list[Json], at: str) -> FieldErrors:
    errors: FieldErrors = []
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        errors += [
            status_errors.field_invalid(f"{at}[{i}].key", key, why) for why in selectors.check_qualified_name(key)
        ]
        errors += [
            status_errors.field_invalid(f"{at}[{i}].value", value, why) for why in selectors.check_label_value(value)
        ]
        if not effect:
            errors.append(status_errors.field_required(f"{at}[{i}].effect"))
        elif effect not in _EFFECTS:
            errors.append(status_errors.field_not_supported(f"{at}[{i}].effect", effect, _EFFECTS))
        if (key, effect) in seen:
            message = "taints must be unique by key and effect pair"
            # kube-apiserver prints the taint as a Go struct.
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            errors.append(status_errors.FieldError("FieldValueDuplicate", f"{at}[{i}]", shown, message))
        seen.add((key, effect))
    return errors


class VolumeStrategy(Strategy):
    """PersistentVolumes."""

    def default(self, obj: Json) -> None:
        obj["status"].setdefault("phase", "Pending")
        obj["spec"].setdefault("persistentVolumeReclaimPolicy", "Retain")
        obj["spec"].setdefault("volumeMode", "Filesystem")

    def new_status(self, obj: Json) -> Json:
        return {"phase": "Pending"}


class ClaimStrategy(Strategy):
    """PersistentVolumeClaims."""

    def default(self, obj: Json) -> None:
        obj["status"].setdefault("phase", "Pending")
        obj["spec"].setdefault("volumeMode", "Filesystem")

    def new_status(self, obj: Json) -> Json:
        return {"phase": "Pending"}


class StorageClassStrategy(Strategy):
    """StorageClasses."""

    def default(self, obj: Json) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")


class CsiDriverStrategy(Strategy):
    """CSIDrivers."""

    def default(self, obj: Json) -> None:
        spec = obj["spec"]
        for name, value in (
            ("attachRequired", True),
            ("podInfoOnMount", False),
            ("storageCapacity", False),
            ("fsGroupPolicy", "ReadWriteOnceWithFSType"),
            ("requiresRepublish", False),
            ("seLinuxMount", False),
        ):
            spec.setdefault(name, value)
        spec.setdefault("volumeLifecycleModes", ["Persistent"])


class LeaseStrategy(Strategy):
    """Leases."""

    creates_on_update = True
    needs_version_to_update = True

    def validate(self, obj: Json) -> FieldErrors:
        spec = obj["spec"]
        errors: FieldErrors = []
        if (duration_s := spec.get("leaseDurationSeconds")) is not None and duration_s <= 0:
            errors.append(
                status_errors.field_invalid("spec.leaseDurationSeconds", duration_s, "must be greater than 0")
            )
        if (transitions := spec.get("leaseTransitions")) is not None and transitions < 0:
            message = "must be greater than or equal to 0"
            errors.append(status_errors.field_invalid("spec.leaseTransitions", transitions, message))
        return errors


class ConfigMapStrategy(Strategy):
    """ConfigMaps, with `immutable`."""

    def validate_update(self, new: Json, old: Json) -> FieldErrors:
        if not old.get("immutable"):
            return []
        changed = [name for name in ("data", "binaryData") if new.get(name) != old.get(name)]
        if not new.get("immutable"):
            changed.insert(0, "immutable")
        return [status_errors.field_forbidden(name, "field is immutable when `immutable` is set") for name in changed]


class SecretStrategy(ConfigMapStrategy):
    """Secrets: stringData is stored base64-encoded in data."""

    def default(self, obj: Json) -> None:
        obj.setdefault("type", "Opaque")
        for key, text in (obj.pop("stringData", None) or {}).items():
            obj.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()

    def validate_update(self, new: Json, old: Json) -> FieldErrors:
        errors = super().validate_update(new, old)
        return errors if new["type"] == old["type"] else [*errors, _is_immutable("type", new["type"])]


def _is_immutable(field: str, value: Any) -> status_errors.FieldError:
    return status_errors.field_invalid(field, value, "field is immutable")


class ServiceStrategy(Strategy):
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


class PriorityClassStrategy(Strategy):
    """PriorityClasses: their value is immutable."""

    def default(self, obj: Json) -> None:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def prepare_create(self, obj: Json) -> None:
        obj["metadata"]["generation"] = 1

    def validate_update(self, new: Json, old: Json) -> FieldErrors:
        return (
            []
            if new["value"] == old["value"]
            else [status_errors.field_forbidden("value", "may not be changed in an update.")]
        )


class GenerationStrategy(Strategy):
    """A kind with a generation and no other rules."""

    counts_generations = True


class ResourceClaimStrategy(Strategy):
    """ResourceClaims: their spec is immutable."""

    def default(self, obj: Json) -> None:
        default_device_requests(obj["spec"])

    def validate_update(self, new: Json, old: Json) -> FieldErrors:
        return [] if new["spec"] == old["spec"] else [_is_immutable("spec", new["spec"])]


class ResourceClaimTemplateStrategy(Strategy):
    """ResourceClaimTemplates."""

    def default(self, obj: Json) -> None:
        default_device_requests(obj["spec"]["spec"])


def default_device_requests(spec: Json) -> None:
    """Default of device requests: exactly one device."""
    for request in spec["devices"].get("requests") or ():
        for desired in [request.get("exactly"), *(request.get("firstAvailable") or ())]:
            if desired and desired.setdefault("allocationMode", "ExactCount") == "ExactCount":
                desired["count"] = desired.get("count") or 1


class EventStrategy(Strategy):
    """Events: a PUT may create one; they expire by themselves."""

    creates_on_update = True
