"""Writing objects: what every create, update, patch and apply goes through, whatever it came from."""

from collections.abc import Callable
from dataclasses import dataclass

from windlass.apiserver import admission, meta, status, storage
from windlass.apiserver.apply import check, compare, fieldset, manager, managers
from windlass.apiserver.call import Call
from windlass.apiserver.core import Core
from windlass.apiserver.kinds.strategy import Errors
from windlass.apiserver.types.model import Json

Managers = managers.Managers
_TRIES_FOR_A_NAME = 8
_DUPLICATES = (
    ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject "
    "such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
)


@dataclass(frozen=True, slots=True)
class Written:
    """What a write came to."""

    raw: bytes
    """The object as it is now, or would be."""
    is_new: bool = False


def read_managers(obj: Json, live: Json | None) -> Managers:
    """Whose fields an object says it has, or else the live one; takes them out of the object.

    An empty list resets them; one that cannot be read counts as none.
    """
    said = obj["metadata"].pop("managedFields", None)
    if said is not None and (not said or said == [{}]):
        return {}
    for entries in (said, live["metadata"].get("managedFields") if live else None):
        try:
            found = managers.read(entries)
        except managers.Malformed:
            continue
        if found:
            return found
    return {}


def set_managers(obj: Json, found: Managers) -> None:
    if found:
        obj["metadata"]["managedFields"] = managers.write(found)
    else:
        obj["metadata"].pop("managedFields", None)


def track_update(call: Call, new: Json, live: Json | None) -> None:
    """Note in the object who changed what. What cannot be tracked is forgotten, as the real server does it."""
    keeper = call.resource.field_manager(call.subresource)
    if call.subresource and live is not None:
        new["metadata"].pop("managedFields", None)
        found = read_managers({"metadata": {}}, live)
    else:
        found = read_managers(new, live)
    before = live if live is not None else call.resource.zero
    try:
        bare = without_managers(before) if live is not None else before
        if call.resource.is_custom:
            check.check(new, keeper.type, allow_duplicates=True)
        set_managers(new, keeper.update(bare, new, found, call.manager, call.now))
    except (compare.Untyped, ValueError):
        set_managers(new, {})


def without_managers(obj: Json) -> Json:
    metadata = obj.get("metadata")
    if not metadata or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


# ── Creating ─────────────────────────────────────────────────────────────────────────────────────────────────────


def create(core: Core, call: Call, obj: Json) -> Written:
    """Store an object that is not there yet. Its managers are in it already."""
    metadata = obj["metadata"]
    call.name = metadata.get("name", "")
    admission.check_namespace(core, call)
    admission.admit(core, call, obj)
    base = metadata.get("generateName", "")
    if metadata.get("name") or not base:
        return _create_once(core, call, obj, call.is_dry_run)
    for _ in range(_TRIES_FOR_A_NAME):
        metadata["name"] = meta.generate_name(base, core.chance)
        if core.find(call.resource, call.namespace, metadata["name"]) is None:
            return _create_once(core, call, obj, call.is_dry_run)
    raise status.no_unique_name(call.resource, metadata["name"])


def _create_once(core: Core, call: Call, obj: Json, is_dry_run: bool) -> Written:
    resource, metadata = call.resource, obj["metadata"]
    meta.fill(metadata, call.now, core.chance)
    resource.strategy.prepare_create(obj)
    errors = meta.validate(metadata, is_namespaced=resource.is_namespaced, check_name=resource.strategy.check_name)
    errors = resource.strategy.validate(obj) + errors
    if errors:
        raise status.invalid(resource, metadata.get("name", ""), errors)
    key = storage.key_of(call.namespace, metadata["name"])
    table = core.table(resource)
    there = table.objects.get(key)
    if there is not None:
        raise status.already_exists(resource, metadata["name"], is_being_deleted=there.is_deleting)
    if metadata.get("resourceVersion"):
        raise status.unclassified("resourceVersion should not be set on objects to be created")
    if is_dry_run:
        return Written(resource.prefix + storage.encode(_body(obj))[1:], True)
    return Written(core.store.write(table, key, obj).raw, True)


def _body(obj: Json) -> Json:
    return {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}


# ── Changing ─────────────────────────────────────────────────────────────────────────────────────────────────────

Change = Callable[[Json], Json]
"""From the live object, freely changeable, to the new one, whose managers are in it already."""


def update(core: Core, call: Call, stored: storage.Stored, change: Change) -> Written:
    """Replace an object by what a change makes of it."""
    resource, strategy = call.resource, call.resource.strategy
    old = stored.decode()
    new = change(stored.decode())
    _check_version(call, new, stored)
    meta.match_namespace(new["metadata"], call.namespace)
    meta.carry_over(new["metadata"], old["metadata"])
    if call.subresource == "status":
        strategy.prepare_status(new, old)
        errors = strategy.validate_status(new, old)
    elif call.subresource == "finalize":
        errors = []
    else:
        strategy.prepare_update(new, old)
        errors = strategy.validate_update(new, old)
    errors = meta.validate_update(new["metadata"], old["metadata"]) + errors
    if errors:
        raise status.invalid(resource, stored.name, errors)
    return _finish(core, call, stored, new, old)


def _check_version(call: Call, new: Json, stored: storage.Stored) -> None:
    asked = new["metadata"].get("resourceVersion", "")
    if not asked or asked == "0":
        if call.resource.strategy.needs_version_to_update and call.method == "PUT":
            said = "must be specified for an update"
            errors: Errors = [status.wrong("metadata.resourceVersion", 0, said)]
            raise status.invalid_kind(call.resource.plural, call.resource.group, stored.name, errors)
    elif asked != str(stored.version):
        raise status.conflict(call.resource, stored.name)
    new["metadata"]["resourceVersion"] = str(stored.version)


def _finish(core: Core, call: Call, stored: storage.Stored, new: Json, old: Json) -> Written:
    if is_same(new, old):
        return Written(stored.raw)
    table = core.table(call.resource)
    if call.is_dry_run:
        return Written(table.encode(new, stored.version))
    if _may_go(call, new, old):
        core.store.delete(table, stored.key)
        return Written(table.encode(new, stored.version))
    return Written(core.store.write(table, stored.key, new).raw)


def _may_go(call: Call, new: Json, old: Json) -> bool:
    """Is a deletion over, now that the last finalizer is gone?"""
    was, now = old["metadata"], new["metadata"]
    if "deletionTimestamp" not in was or now.get("finalizers"):
        return False
    return not was.get("deletionGracePeriodSeconds") and call.resource.strategy.may_vanish(new)


def is_same(new: Json, old: Json) -> bool:
    """Is nothing changed, but for the times of managers?"""
    if new == old:
        return True
    mine, theirs = new["metadata"].get("managedFields"), old["metadata"].get("managedFields")
    if not mine or not theirs or len(mine) != len(theirs):
        return False
    if any({**a, "time": ""} != {**b, "time": ""} for a, b in zip(mine, theirs, strict=True)):
        return False
    return without_managers(new) == without_managers(old)


def warn_of_duplicates(call: Call, obj: Json) -> None:
    if doubled := meta.dedupe_owners(obj["metadata"]):
        call.warn(_DUPLICATES + ", ".join(doubled))


def refuse_conflict(found: manager.Conflict) -> status.Refused:
    """The Status of an apply that would take fields from others."""
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_spell_manager(who)}",
            "field": fieldset.spell(path),
        }
        for who, path in found.found
    ]
    if len(causes) == 1:
        who, path = found.found[0]
        said = f"Apply failed with 1 conflict: conflict with {_spell_manager(who)}: {fieldset.spell(path)}"
        return status.apply_conflict(said, causes)
    lines = []
    for who in sorted({who for who, _ in found.found}):
        lines.append(f"conflicts with {_spell_manager(who)}:")
        lines += [f"- {fieldset.spell(path)}" for other, path in found.found if other == who]
    said = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    return status.apply_conflict(said, causes)


def _spell_manager(who: managers.Identity) -> str:
    said = status.show(who.manager)
    if who.subresource:
        said += f' with subresource "{who.subresource}"'
    return f"{said} using {who.api_version}" if who.operation == managers.UPDATE else said
