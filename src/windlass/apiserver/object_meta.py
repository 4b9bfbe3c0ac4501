"""ObjectMeta: fields that the server sets, keeps or rejects.

Messages are those of kube-apiserver.
"""

import random
from collections.abc import Callable
from typing import Any

from windlass import selectors
from windlass.apiserver import status_errors
from windlass.apiserver.value_types import Json

NameCheck = Callable[[str], tuple[str, ...]]
"""Errors in a name; empty if it is valid."""

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"

_SUFFIX_LENGTH = 5

_LONGEST_GENERATED = 63 - _SUFFIX_LENGTH

_MOST_ANNOTATION_BYTES = 256 * 1024

_SERVER_OWNED_FIELDS = ("creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


def wipe_server_fields(metadata: Json) -> None:
    """Drop fields that a client may not set in a new object."""
    for name in _SERVER_OWNED_FIELDS:
        metadata.pop(name, None)


def fill_object_meta(metadata: Json, now: str, rng: random.Random) -> None:
    """Set the server's fields of a new object."""
    metadata["creationTimestamp"] = now
    digits = f"{rng.getrandbits(122):031x}"
    # UUID of version 4, variant 1: all other digits are random.
    variant = "89ab"[int(digits[15], 16) & 3]
    metadata["uid"] = f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-{variant}{digits[16:19]}-{digits[19:]}"


def generate_name(base: str, rng: random.Random) -> str:
    return base[:_LONGEST_GENERATED] + "".join(rng.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))


def match_namespace(metadata: Json, namespace: str) -> None:
    """Set the request's namespace, or refuse a different one."""
    namespace_in_body = metadata.get("namespace", "")
    if namespace_in_body == namespace:
        return
    if namespace_in_body and namespace:
        message = "the namespace of the provided object does not match the namespace sent on the request"
        raise status_errors.bad_request(message)
    if namespace:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)


def carry_over_immutable(metadata: Json, old: Json) -> None:
    """Restore fields that an update cannot change."""
    _set_or_drop(metadata, "generation", old.get("generation"))
    if not metadata.get("uid"):
        metadata["uid"] = old["uid"]
    metadata["creationTimestamp"] = old["creationTimestamp"]
    if "deletionTimestamp" in old:
        metadata["deletionTimestamp"] = old["deletionTimestamp"]
    if "deletionGracePeriodSeconds" in old:
        metadata.setdefault("deletionGracePeriodSeconds", old["deletionGracePeriodSeconds"])


def _set_or_drop(metadata: Json, name: str, value: Any) -> None:
    if value is None:
        metadata.pop(name, None)
    else:
        metadata[name] = value


def validate_object_meta(
    metadata: Json, *, is_namespaced: bool, check_name: NameCheck
) -> list[status_errors.FieldError]:
    """Errors in a new object's metadata."""
    errors: list[status_errors.FieldError] = []
    if base := metadata.get("generateName"):
        errors += [
            status_errors.field_invalid("metadata.generateName", base, complaint)
            for complaint in check_name(base.rstrip("-.") or base)
        ]
    if name := metadata.get("name"):
        errors += [status_errors.field_invalid("metadata.name", name, complaint) for complaint in check_name(name)]
    else:
        errors.append(status_errors.field_required("metadata.name", "name or generateName is required"))
    namespace = metadata.get("namespace", "")
    if is_namespaced and not namespace:
        errors.append(status_errors.field_required("metadata.namespace"))
    elif is_namespaced:
        errors += [
            status_errors.field_invalid("metadata.namespace", namespace, why)
            for why in selectors.check_dns_label(namespace)
        ]
    return errors + _validate_common(metadata) + _validate_finalizers(metadata.get("finalizers") or [])


def validate_object_meta_update(metadata: Json, old: Json) -> list[status_errors.FieldError]:
    """Errors in the changes of an update to the metadata."""
    errors: list[status_errors.FieldError] = []
    if "deletionTimestamp" in old:
        extra = sorted(set(metadata.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if extra:
            listed = ", ".join(status_errors.format_value(finalizer) for finalizer in extra)
            reason = "no new finalizers can be added if the object is being deleted, found new finalizers "
            errors.append(status_errors.field_forbidden("metadata.finalizers", f"{reason}[]string{{{listed}}}"))
    errors += [
        status_errors.field_invalid(f"metadata.{name}", metadata.get(name), "field is immutable")
        for name in ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds")
        if metadata.get(name) != old.get(name)
    ]
    return errors + _validate_common(metadata) + _validate_finalizers(metadata.get("finalizers") or [])


def _validate_common(metadata: Json) -> list[status_errors.FieldError]:
    errors: list[status_errors.FieldError] = []
    for key, value in (metadata.get("labels") or {}).items():
        errors += [
            status_errors.field_invalid("metadata.labels", key, complaint)
            for complaint in selectors.check_qualified_name(key)
        ]
        errors += [
            status_errors.field_invalid("metadata.labels", value, complaint)
            for complaint in selectors.check_label_value(value)
        ]
    if annotations := metadata.get("annotations"):
        for key in annotations:
            found = selectors.check_qualified_name(key.lower())
            errors += [status_errors.field_invalid("metadata.annotations", key, complaint) for complaint in found]
        if sum(len(key) + len(value) for key, value in annotations.items()) > _MOST_ANNOTATION_BYTES:
            errors.append(status_errors.field_too_long("metadata.annotations", _MOST_ANNOTATION_BYTES))
    if owners := metadata.get("ownerReferences"):
        errors += _validate_owners(owners)
    return errors


def _validate_owners(owners: list[Json]) -> list[status_errors.FieldError]:
    at = "metadata.ownerReferences"
    errors: list[status_errors.FieldError] = []
    controller = ""
    for owner in owners:
        for name in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(name):
                message = "version must not be empty" if name == "apiVersion" else "must not be empty"
                errors.append(status_errors.field_invalid(f"{at}.{name}", owner.get(name, ""), message))
        if owner.get("controller"):
            mine = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                message = "Only one reference can have Controller set to true. Found "
                message += f'"true" in references for {controller} and {mine}'
                errors.append(status_errors.field_invalid(at, owners, message))
            else:
                controller = mine
    return errors


def _validate_finalizers(finalizers: list[str]) -> list[status_errors.FieldError]:
    at = "metadata.finalizers"
    errors = [
        status_errors.field_invalid(at, name, why)
        for name in finalizers
        for why in selectors.check_qualified_name(name)
    ]
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        message = f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"
        errors.append(status_errors.field_invalid(at, finalizers, message))
    return errors


def dedupe_owners(metadata: Json) -> list[str]:
    """Drop duplicate owner references; returns their uids."""
    owners = metadata.get("ownerReferences")
    if not owners or len(owners) < 2:
        return []
    kept: list[Json] = []
    doubled: list[str] = []
    for owner in owners:
        if owner in kept:
            doubled.append(owner["uid"])
        else:
            kept.append(owner)
    if doubled:
        metadata["ownerReferences"] = kept
    return doubled
