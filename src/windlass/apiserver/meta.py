"""Metadata: what the server fills in, keeps from being changed, and refuses."""

import random
from typing import Any

from windlass.apiserver import names, status
from windlass.apiserver.types.model import Json

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_LONGEST_GENERATED = 63 - _SUFFIX_LENGTH
_MOST_ANNOTATION_BYTES = 256 * 1024

_NOT_THE_CLIENTS = ("creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


def wipe(metadata: Json) -> None:
    """Drop what a client may not say about a new object."""
    for name in _NOT_THE_CLIENTS:
        metadata.pop(name, None)


def fill(metadata: Json, now: str, chance: random.Random) -> None:
    """What a new object gets from the server."""
    metadata["creationTimestamp"] = now
    digits = f"{chance.getrandbits(122):031x}"
    # Random but for the two digits that say so: version 4, variant 1.
    variant = "89ab"[int(digits[15], 16) & 3]
    metadata["uid"] = f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-{variant}{digits[16:19]}-{digits[19:]}"


def generate_name(base: str, chance: random.Random) -> str:
    return base[:_LONGEST_GENERATED] + "".join(chance.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))


def match_namespace(metadata: Json, namespace: str) -> None:
    """The object is in the request's namespace, whether it says so or not."""
    said = metadata.get("namespace", "")
    if said == namespace:
        return
    if said and namespace:
        message = "the namespace of the provided object does not match the namespace sent on the request"
        raise status.bad_request(message)
    if namespace:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)


def carry_over(metadata: Json, old: Json) -> None:
    """What an update cannot change, whatever it says."""
    _set(metadata, "generation", old.get("generation"))
    if not metadata.get("uid"):
        metadata["uid"] = old["uid"]
    metadata["creationTimestamp"] = old["creationTimestamp"]
    if "deletionTimestamp" in old:
        metadata["deletionTimestamp"] = old["deletionTimestamp"]
    if "deletionGracePeriodSeconds" in old:
        metadata.setdefault("deletionGracePeriodSeconds", old["deletionGracePeriodSeconds"])


def _set(metadata: Json, name: str, value: Any) -> None:
    if value is None:
        metadata.pop(name, None)
    else:
        metadata[name] = value


def validate(metadata: Json, *, is_namespaced: bool, check_name: names.Check) -> list[status.FieldError]:
    """Complaints about a new object's metadata."""
    errors: list[status.FieldError] = []
    if base := metadata.get("generateName"):
        errors += [
            status.wrong("metadata.generateName", base, complaint)
            for complaint in check_name(base.rstrip("-.") or base)
        ]
    if name := metadata.get("name"):
        errors += [status.wrong("metadata.name", name, complaint) for complaint in check_name(name)]
    else:
        errors.append(status.required("metadata.name", "name or generateName is required"))
    namespace = metadata.get("namespace", "")
    if is_namespaced and not namespace:
        errors.append(status.required("metadata.namespace"))
    elif is_namespaced:
        errors += [status.wrong("metadata.namespace", namespace, why) for why in names.check_label(namespace)]
    return errors + _validate_common(metadata) + _validate_finalizers(metadata.get("finalizers") or [])


def validate_update(metadata: Json, old: Json) -> list[status.FieldError]:
    """Complaints about what an update does to the metadata."""
    errors: list[status.FieldError] = []
    if "deletionTimestamp" in old:
        extra = sorted(set(metadata.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if extra:
            listed = ", ".join(status.show(finalizer) for finalizer in extra)
            why = "no new finalizers can be added if the object is being deleted, found new finalizers "
            errors.append(status.forbidden_field("metadata.finalizers", f"{why}[]string{{{listed}}}"))
    errors += [
        status.wrong(f"metadata.{name}", metadata.get(name), "field is immutable")
        for name in ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds")
        if metadata.get(name) != old.get(name)
    ]
    return errors + _validate_common(metadata) + _validate_finalizers(metadata.get("finalizers") or [])


def _validate_common(metadata: Json) -> list[status.FieldError]:
    errors: list[status.FieldError] = []
    for key, value in (metadata.get("labels") or {}).items():
        errors += [status.wrong("metadata.labels", key, complaint) for complaint in names.check_key(key)]
        errors += [status.wrong("metadata.labels", value, complaint) for complaint in names.check_value(value)]
    if annotations := metadata.get("annotations"):
        for key in annotations:
            found = names.check_key(key.lower())
            errors += [status.wrong("metadata.annotations", key, complaint) for complaint in found]
        if sum(len(key) + len(value) for key, value in annotations.items()) > _MOST_ANNOTATION_BYTES:
            errors.append(status.too_long("metadata.annotations", _MOST_ANNOTATION_BYTES))
    if owners := metadata.get("ownerReferences"):
        errors += _validate_owners(owners)
    return errors


def _validate_owners(owners: list[Json]) -> list[status.FieldError]:
    at = "metadata.ownerReferences"
    errors: list[status.FieldError] = []
    controller = ""
    for owner in owners:
        for name in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(name):
                said = "version must not be empty" if name == "apiVersion" else "must not be empty"
                errors.append(status.wrong(f"{at}.{name}", owner.get(name, ""), said))
        if owner.get("controller"):
            mine = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                said = "Only one reference can have Controller set to true. Found "
                said += f'"true" in references for {controller} and {mine}'
                errors.append(status.wrong(at, owners, said))
            else:
                controller = mine
    return errors


def _validate_finalizers(finalizers: list[str]) -> list[status.FieldError]:
    at = "metadata.finalizers"
    errors = [status.wrong(at, name, why) for name in finalizers for why in names.check_key(name)]
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        said = f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"
        errors.append(status.wrong(at, finalizers, said))
    return errors


def dedupe_owners(metadata: Json) -> list[str]:
    """Drop owner references that are there twice; their uids."""
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
