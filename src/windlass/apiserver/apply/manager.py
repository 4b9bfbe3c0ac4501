"""The rules of field ownership: what an update takes from others, and what an apply merges, takes and removes."""

from dataclasses import dataclass, field, replace

import msgspec

from windlass.apiserver.apply import check, compare, fieldset, managers, merge, prune
from windlass.apiserver.types import model

Fields = fieldset.Fields
Managers = managers.Managers

MOST_UPDATERS = 10
_MOST_REMEMBERED = 512
_encode = msgspec.json.Encoder().encode
BEFORE_FIRST_APPLY = "before-first-apply"
_ANCIENT = "ancient-changes"

_TYPE_META = ("apiVersion", "kind")
_SERVERS_METADATA = frozenset(
    {
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    }
)
_NEVER_OWNED: Fields = {
    **{f"f:{name}": {} for name in _TYPE_META},
    "f:metadata": {".": {}, **{f"f:{name}": {} for name in sorted(_SERVERS_METADATA)}},
}


class Conflict(Exception):
    """An apply would change fields of other managers. Carries each with its path."""

    def __init__(self, found: list[tuple[managers.Identity, tuple[str, ...]]]) -> None:
        super().__init__(f"{len(found)} conflicts")
        self.found = found


@dataclass(frozen=True, slots=True)
class FieldManager:
    """Ownership of the fields of one kind, as changed through one of its endpoints."""

    type: model.Type
    api_version: str
    subresource: str = ""
    ignored: Fields = field(default_factory=dict)
    """What this endpoint cannot change, whatever is sent: never owned through it."""
    zero: model.Json = field(default_factory=dict)
    """The object before it exists."""
    _remembered: dict[tuple[str, bytes], Fields] = field(default_factory=dict)
    """What the parts of objects created lately own: objects made from one template share most of theirs."""

    def update(self, live: model.Json, new: model.Json, owners: Managers, manager: str, now: str) -> Managers:
        """The managers after someone has written `new` over `live`. Neither carries managedFields.

        An object that nobody manages stays so, unless it is being created.
        """
        if not owners:
            if live is self.zero:
                return self._create(new, manager, now)
            if live.get("metadata", {}).get("uid"):
                return owners
        return _cap(self._take(live, new, owners, manager, now))

    def _take(self, live: model.Json, new: model.Json, owners: Managers, manager: str, now: str) -> Managers:
        changed = compare.compare(live, new, self.type).without(self.ignored)
        written = fieldset.union(changed.modified, changed.added)
        left = self._yield_to(owners, written, changed.removed)
        mine = fieldset.difference(fieldset.subtract_trees(written, self.ignored), _NEVER_OWNED)
        if mine:
            identity = managers.Identity.of(manager, managers.UPDATE, self.subresource, self.api_version)
            before = left.get(identity)
            fields = fieldset.union(before.fields, mine) if before else mine
            left[identity] = managers.Entry(fields, self.api_version, now)
        return left

    def _create(self, new: model.Json, manager: str, now: str) -> Managers:
        """Whoever creates an object owns all of it. The same as `_take` from nothing, part by part and remembered."""
        mine: Fields = {}
        for name, value in new.items():
            if name in _TYPE_META or f"f:{name}" in self.ignored:
                continue
            if name == "metadata":
                owned = {key: item for key, item in value.items() if key not in _SERVERS_METADATA}
                if owned:
                    node = compare.everything(owned, self._metadata_type())
                    mine["f:metadata"] = fieldset.children_of(node)
            else:
                mine.update(self._recall(name, value))
        if not mine:
            return {}
        identity = managers.Identity.of(manager, managers.UPDATE, self.subresource, self.api_version)
        return {identity: managers.Entry(mine, self.api_version, now)}

    def _metadata_type(self) -> model.Type:
        assert self.type.map is not None
        return self.type.map.fields["metadata"]

    def _recall(self, name: str, value: object) -> Fields:
        key = (name, _encode(value))
        part = self._remembered.get(key)
        if part is None:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            part = self._remembered[key] = self._part(name, value)
        return part

    def _part(self, name: str, value: object) -> Fields:
        before = {name: self.zero[name]} if name in self.zero else {}
        changed = compare.compare(before, {name: value}, self.type).without(self.ignored)
        return fieldset.union(changed.modified, changed.added)

    def _yield_to(self, owners: Managers, written: Fields, removed: Fields) -> Managers:
        """The other managers without what was written over or removed. Those of unknown versions go."""
        left: Managers = {}
        for identity, entry in owners.items():
            if entry.api_version != self.api_version:
                continue
            fields = entry.fields
            if written:
                fields = fieldset.difference(fields, written)
            if removed:
                fields = fieldset.difference(fields, removed)
            if fields:
                left[identity] = entry.holding(fields)
        return left

    def apply(
        self, live: model.Json, applied: model.Json, owners: Managers, manager: str, now: str, *, force: bool
    ) -> tuple[model.Json | None, Managers]:
        """The object after a manager has applied its configuration, or None if nothing changed; and the managers.

        Raises `check.Untyped` if the configuration is not of the type, `Conflict` if it would take fields by force.
        """
        check.check(applied, self.type)
        if not owners:
            owners = self._take(self.zero, live, {}, BEFORE_FIRST_APPLY, now)
        identity = managers.Identity.of(manager, managers.APPLY, self.subresource, self.api_version)
        last = owners.get(identity)
        configured = fieldset.subtract_trees(compare.fields_of(applied, self.type), self.ignored)
        others = {who: entry for who, entry in owners.items() if who != identity}
        merged = merge.merge(live, applied, self.type)
        mine = fieldset.difference(configured, _NEVER_OWNED)
        if last is not None and last.fields != mine:  # whoever applies the same fields again gives none up
            owned = configured
            for entry in others.values():
                owned = fieldset.union(owned, entry.fields)
            merged = prune.prune(merged, last.fields, owned, self.type)
        left = self._settle(live, merged, others, force=force)
        is_changed = merged != live
        if mine:
            time = now if is_changed else (last.time if last else None)
            left[identity] = managers.Entry(mine, self.api_version, time)
        return (merged if is_changed else None), left

    def _settle(self, live: model.Json, merged: model.Json, others: Managers, *, force: bool) -> Managers:
        changed = compare.compare(live, merged, self.type).without(self.ignored)
        written = fieldset.union(changed.modified, changed.added)
        if not force:
            found = [
                (who, path)
                for who, entry in others.items()
                for path in fieldset.paths(fieldset.intersection(entry.fields, written))
            ]
            if found:
                raise Conflict(found)
        return self._yield_to(others, written, changed.removed)


def _cap(owners: Managers) -> Managers:
    """At most so many updaters: the oldest share one entry of their version."""
    updaters = [who for who in owners if who.operation == managers.UPDATE]
    if len(updaters) <= MOST_UPDATERS:
        return owners
    updaters.sort(key=lambda who: (owners[who].time or "", who.manager, who.api_version, who.subresource))
    capped, count = dict(owners), len(updaters)
    first_of_version: dict[str, managers.Identity] = {}
    for who in updaters:
        if count <= MOST_UPDATERS:
            break
        first = first_of_version.setdefault(who.api_version, who)
        if first is who:
            continue
        bucket = managers.Identity(_ANCIENT, managers.UPDATE, "", who.api_version)
        if bucket not in capped:
            capped[bucket] = capped.pop(first)
        entry = capped.pop(who)
        capped[bucket] = replace(entry, fields=fieldset.union(entry.fields, capped[bucket].fields))
        count -= 1
    return capped
