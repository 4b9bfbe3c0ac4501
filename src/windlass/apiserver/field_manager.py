"""Field management: ownership after an update, and the merge and pruning of server-side apply.

An apply merges the applied configuration into the live object, then prunes fields that its manager applied last time
and that have no manager now. List items keep the live order unless the configuration orders them.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from windlass.apiserver import field_sets, typed_values, value_types
from windlass.apiserver.typed_values import ABSENT


def merge_applied(live: value_types.Json, applied: value_types.Json, type_: value_types.ValueType) -> value_types.Json:
    """The merged object. Parts of either may be shared with the result."""
    merged = _merge_value(live, applied, type_)
    return {} if merged is ABSENT else merged


def _merge_value(live: Any, applied: Any, type_: value_types.ValueType) -> Any:
    if applied is ABSENT:
        return live
    value = applied if applied is not None else live
    if isinstance(value, dict) and type_.map is not None:
        return _merge_maps(live, applied, type_.map)
    if isinstance(value, list) and type_.list is not None:
        return _merge_lists(live, applied, type_.list)
    return applied


def _merge_maps(live: Any, applied: Any, shape: value_types.MapType) -> Any:
    left = live if isinstance(live, dict) else {}
    right = applied if isinstance(applied, dict) else {}
    if shape.is_atomic or not (left or right):
        return applied
    merged = {}
    for name in [*left, *(name for name in right if name not in left)]:
        below = shape.field(name) or value_types.DEDUCED
        value = _merge_value(left.get(name, ABSENT), right.get(name, ABSENT), below)
        if value is not ABSENT:
            merged[name] = value
    return merged or ABSENT


def _merge_lists(live: Any, applied: Any, shape: value_types.ListType) -> Any:
    left = live if isinstance(live, list) else []
    right = applied if isinstance(applied, list) else []
    if not shape.is_associative or not (left or right):
        return applied
    return _Interleaving(left, right, shape).run() or ABSENT


class _Interleaving:
    """Merge of two lists: live items keep their order, applied items theirs."""

    def __init__(self, left: list[Any], right: list[Any], shape: value_types.ListType) -> None:
        self._shape = shape
        self._left, self._right = left, right
        self._left_elements = [field_sets.item_element(shape, item) for item in left]
        self._right_elements = [field_sets.item_element(shape, item) for item in right]
        self._live: dict[str, Any] = {}
        for element, item in zip(self._left_elements, left, strict=True):
            # Duplicate live items of one key are not merged.
            self._live[element] = None if element in self._live else item
        self._applied = dict(zip(self._right_elements, right, strict=True))
        self._shared = [element for element in self._right_elements if element in self._live]
        self._merged: list[Any] = []
        self._done: set[str] = set()

    def run(self) -> list[Any]:
        i = j = 0
        while i < len(self._left) or j < len(self._right):
            if i < len(self._left) and j < len(self._right):
                element = self._left_elements[i]
                if element == self._right_elements[j]:
                    self._take(element)
                    self._shared = self._shared[1:]
                    i, j = i + 1, j + 1
                    continue
                if element in self._applied and self._shared and self._shared[0] != element:
                    i += 1  # shared, but its turn comes later
                    continue
            if i < len(self._left):
                element = self._left_elements[i]
                if element not in self._applied:
                    self._add(_merge_value(self._left[i], ABSENT, self._shape.element))
                    i += 1
                    continue
                if element in self._done:
                    i += 1
            if j < len(self._right):
                element = self._right_elements[j]
                self._take(element)
                if self._shared and self._shared[0] == element:
                    self._shared = self._shared[1:]
                j += 1
        return self._merged

    def _take(self, element: str) -> None:
        self._done.add(element)
        self._add(_merge_value(self._live.get(element, ABSENT), self._applied[element], self._shape.element))

    def _add(self, value: Any) -> None:
        if value is not ABSENT:
            self._merged.append(value)


Fields = field_sets.Fields


def remove_fields(value: Any, fields: Fields, type_: value_types.ValueType) -> Any:
    """The value without the fields of the set. A container that becomes empty is null."""
    if isinstance(value, dict) and type_.map is not None:
        return _remove_from_map(value, fields, type_.map)
    if isinstance(value, list) and type_.list is not None:
        return _remove_from_list(value, fields, type_.list)
    return value


def _remove_from_map(value: value_types.Json, fields: Fields, shape: value_types.MapType) -> value_types.Json | None:
    if shape.is_atomic:
        return None
    rest = {}
    for name, item in value.items():
        node = fields.get("f:" + name)
        if node is None:
            rest[name] = item
        elif not field_sets.is_member(node):
            rest[name] = remove_fields(item, node, shape.field(name) or value_types.DEDUCED)
    return rest or None


def _remove_from_list(items: list[Any], fields: Fields, shape: value_types.ListType) -> list[Any] | None:
    if not shape.is_associative:
        return None
    rest = []
    for item in items:
        node = fields.get(field_sets.item_element(shape, item))
        if node is None:
            rest.append(item)
        elif not field_sets.is_member(node):
            rest.append(remove_fields(item, node, shape.element))
    return rest or None


def prune_unowned(
    merged: value_types.Json, last: Fields, owned: Fields, type_: value_types.ValueType
) -> value_types.Json:
    """The merged object without fields that its manager applied `last` time and that no manager owns now.

    `owned` are the fields of all managers, including the applier's new configuration.
    """
    if not last:
        return merged

    def named(fields: Fields) -> Fields:
        return field_sets.with_named_fields(fields, type_)

    def of(value: value_types.Json) -> Fields:
        return named(typed_values.fields_of(value, type_))

    everything = of(merged)
    without_last = remove_fields(merged, named(last), type_) or {}
    dispensable = field_sets.difference_of(everything, field_sets.union_of(of(without_last), named(owned)))
    with_owned = remove_fields(merged, dispensable, type_) or {}
    # Only fields that the applier itself owned are removed.
    gone = field_sets.difference_of(everything, of(with_owned))
    return remove_fields(merged, field_sets.intersection_of(gone, named(last)), type_) or {}


Managers = field_sets.Managers

MAX_UPDATERS = 10

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


class ApplyConflict(Exception):
    """An apply would change fields of other managers; holds each manager with the path."""

    def __init__(self, conflicts: list[tuple[field_sets.ManagerIdentity, tuple[str, ...]]]) -> None:
        super().__init__(f"{len(conflicts)} conflicts")
        self.found = conflicts


@dataclass(frozen=True, slots=True)
class FieldManager:
    """Ownership of the fields of one kind, as changed through one of its endpoints."""

    type: value_types.ValueType
    api_version: str
    subresource: str = ""
    ignored: Fields = field(default_factory=dict)
    """Fields that this endpoint cannot change, and that are never owned through it."""
    zero: value_types.Json = field(default_factory=dict)
    """The object before it exists."""
    _remembered: dict[tuple[str, bytes], Fields] = field(default_factory=dict)
    """Cache of field sets of recently created objects: objects of one template share most parts."""

    def update(
        self, live: value_types.Json, new: value_types.Json, owners: Managers, manager: str, now: str
    ) -> Managers:
        """The managers after an update of `live` to `new`. Neither has managedFields.

        An object without managers stays without, unless it is being created.
        """
        if not owners:
            if live is self.zero:
                return self._create(new, manager, now)
            if live.get("metadata", {}).get("uid"):
                return owners
        return _cap_updaters(self._take(live, new, owners, manager, now))

    def _take(
        self, live: value_types.Json, new: value_types.Json, owners: Managers, manager: str, now: str
    ) -> Managers:
        changed = typed_values.compare_values(live, new, self.type).without(self.ignored)
        written = field_sets.union_of(changed.modified, changed.added)
        remaining = self._release_fields(owners, written, changed.removed)
        mine = field_sets.difference_of(field_sets.subtract_trees(written, self.ignored), _NEVER_OWNED)
        if mine:
            identity = field_sets.ManagerIdentity.of(manager, field_sets.UPDATE, self.subresource, self.api_version)
            before = remaining.get(identity)
            fields = field_sets.union_of(before.fields, mine) if before else mine
            remaining[identity] = field_sets.ManagerEntry(fields, self.api_version, now)
        return remaining

    def _create(self, new: value_types.Json, manager: str, now: str) -> Managers:
        """The creator of an object owns all of it. As `_take` from an empty object, but cached by part."""
        mine: Fields = {}
        for name, value in new.items():
            if name in _TYPE_META or f"f:{name}" in self.ignored:
                continue
            if name == "metadata":
                owned = {key: item for key, item in value.items() if key not in _SERVERS_METADATA}
                if owned:
                    node = typed_values.all_fields(owned, self._metadata_type())
                    mine["f:metadata"] = field_sets.children_of(node)
            else:
                mine.update(self._recall(name, value))
        if not mine:
            return {}
        identity = field_sets.ManagerIdentity.of(manager, field_sets.UPDATE, self.subresource, self.api_version)
        return {identity: field_sets.ManagerEntry(mine, self.api_version, now)}

    def _metadata_type(self) -> value_types.ValueType:
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
        changed = typed_values.compare_values(before, {name: value}, self.type).without(self.ignored)
        return field_sets.union_of(changed.modified, changed.added)

    def _release_fields(self, owners: Managers, written: Fields, removed: Fields) -> Managers:
        """The other managers without changed and removed fields. Managers of unknown versions are dropped."""
        managers: Managers = {}
        for identity, entry in owners.items():
            if entry.api_version != self.api_version:
                continue
            fields = entry.fields
            if written:
                fields = field_sets.difference_of(fields, written)
            if removed:
                fields = field_sets.difference_of(fields, removed)
            if fields:
                managers[identity] = entry.holding(fields)
        return managers

    def apply(
        self,
        live: value_types.Json,
        applied: value_types.Json,
        owners: Managers,
        manager: str,
        now: str,
        *,
        force: bool,
    ) -> tuple[value_types.Json | None, Managers]:
        """The object after a server-side apply, or None if unchanged; and the managers.

        Raises `TypeMismatch` if the configuration is not of the type, `ApplyConflict` for others' fields without force.
        """
        typed_values.check_typed(applied, self.type)
        if not owners:
            owners = self._take(self.zero, live, {}, BEFORE_FIRST_APPLY, now)
        identity = field_sets.ManagerIdentity.of(manager, field_sets.APPLY, self.subresource, self.api_version)
        last = owners.get(identity)
        configured = field_sets.subtract_trees(typed_values.fields_of(applied, self.type), self.ignored)
        others = {who: entry for who, entry in owners.items() if who != identity}
        merged = merge_applied(live, applied, self.type)
        mine = field_sets.difference_of(configured, _NEVER_OWNED)
        if last is not None and last.fields != mine:  # applying the same fields again changes no ownership
            owned = configured
            for entry in others.values():
                owned = field_sets.union_of(owned, entry.fields)
            merged = prune_unowned(merged, last.fields, owned, self.type)
        conflicts = self._resolve_conflicts(live, merged, others, force=force)
        is_changed = merged != live
        if mine:
            time = now if is_changed else (last.time if last else None)
            conflicts[identity] = field_sets.ManagerEntry(mine, self.api_version, time)
        return (merged if is_changed else None), conflicts

    def _resolve_conflicts(
        self, live: value_types.Json, merged: value_types.Json, others: Managers, *, force: bool
    ) -> Managers:
        changed = typed_values.compare_values(live, merged, self.type).without(self.ignored)
        written = field_sets.union_of(changed.modified, changed.added)
        if not force:
            conflicts = [
                (who, path)
                for who, entry in others.items()
                for path in field_sets.field_paths(field_sets.intersection_of(entry.fields, written))
            ]
            if conflicts:
                raise ApplyConflict(conflicts)
        return self._release_fields(others, written, changed.removed)


def _cap_updaters(owners: Managers) -> Managers:
    """Limit the number of updaters: the oldest of a version share one entry."""
    updaters = [who for who in owners if who.operation == field_sets.UPDATE]
    if len(updaters) <= MAX_UPDATERS:
        return owners
    updaters.sort(key=lambda who: (owners[who].time or "", who.manager, who.api_version, who.subresource))
    capped, count = dict(owners), len(updaters)
    first_of_version: dict[str, field_sets.ManagerIdentity] = {}
    for who in updaters:
        if count <= MAX_UPDATERS:
            break
        first = first_of_version.setdefault(who.api_version, who)
        if first is who:
            continue
        bucket = field_sets.ManagerIdentity(_ANCIENT, field_sets.UPDATE, "", who.api_version)
        if bucket not in capped:
            capped[bucket] = capped.pop(first)
        entry = capped.pop(who)
        capped[bucket] = replace(entry, fields=field_sets.union_of(entry.fields, capped[bucket].fields))
        count -= 1
    return capped
