"""Field sets and managedFields entries.

A set is a tree, as managedFields writes it: `{"f:spec": {"f:replicas": {}}}`. Keys are path elements (`f:` a field,
`k:` a list item by its keys, `v:` an item of a set). A node is a member if it is empty or has the key `.`; the root
never is. Trees are shared, never changed.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass.apiserver import value_types

Fields = dict[str, Any]

SELF = "."

_encode = msgspec.json.Encoder().encode


def is_member(node: Fields) -> bool:
    return not node or SELF in node


def compose_node(node_is_member: bool, children: Fields) -> Fields | None:
    """A node from its membership and its children; None if it is empty."""
    if not children:
        return {} if node_is_member else None
    return {SELF: {}, **children} if node_is_member else children


def children_of(node: Fields) -> Fields:
    return {key: child for key, child in node.items() if key != SELF} if SELF in node else node


def union_of(left: Fields, right: Fields) -> Fields:
    """Members of either."""
    if not left or not right:
        return left or right
    joined = dict(left)
    for key, node in right.items():
        before = joined.get(key)
        joined[key] = node if before is None else _join_nodes(before, node)
    return joined


def _join_nodes(left: Fields, right: Fields) -> Fields:
    if left is right or not right:
        return left if is_member(left) else {SELF: {}, **left}
    if not left:
        return right if SELF in right else {SELF: {}, **right}
    return union_of(left, right)


def difference_of(left: Fields, right: Fields) -> Fields:
    """Members of the left set that are not members of the right one. Children of a removed member stay."""
    return _select_members(left, right, lambda in_left, in_right: in_left and not in_right, keep_unmatched=True)


def intersection_of(left: Fields, right: Fields) -> Fields:
    """Members of both."""
    return _select_members(left, right, lambda in_left, in_right: in_left and in_right, keep_unmatched=False)


def _select_members(
    left: Fields, right: Fields, keeps: Callable[[bool, bool], bool], *, keep_unmatched: bool
) -> Fields:
    selected: Fields = {}
    for key, node in left.items():
        other = right.get(key)
        if other is None:
            if keep_unmatched:
                selected[key] = node
            continue
        children = _select_members(children_of(node), children_of(other), keeps, keep_unmatched=keep_unmatched)
        rest = compose_node(keeps(is_member(node), is_member(other)), children)
        if rest is not None:
            selected[key] = rest
    return selected


def subtract_trees(left: Fields, right: Fields) -> Fields:
    """The left set without members of the right one and everything below them."""
    if not right:
        return left
    rest: Fields = {}
    for key, node in left.items():
        other = right.get(key)
        if other is None:
            rest[key] = node
        elif not is_member(other):
            kept = compose_node(is_member(node), subtract_trees(children_of(node), other))
            if kept is not None:
                rest[key] = kept
    return rest


def has_path(fields: Fields, *path: str) -> bool:
    node = fields
    for element in path:
        found = node.get(element)
        if found is None:
            return False
        node = found
    return is_member(node)


def field_set_of_path(*path: str) -> Fields:
    """The set with this one member."""
    node: Fields = {}
    for element in reversed(path):
        node = {element: node}
    return node


def with_named_fields(fields: Fields, type_: value_types.ValueType | None) -> Fields:
    """The set with every declared field that has members below it made a member too."""
    if type_ is None:
        return fields
    grown: Fields = {}
    for key, node in fields.items():
        if key == SELF:
            grown[key] = node
            continue
        below, is_declared = _child_type(type_, key)
        children = children_of(node)
        inner = with_named_fields(children, below) if children else children
        grown[key] = compose_node(is_member(node) or (is_declared and bool(children)), inner) or {}
    return grown


def _child_type(type_: value_types.ValueType, key: str) -> tuple[value_types.ValueType | None, bool]:
    """The type of a path element's value, and whether the element is a declared field."""
    if key.startswith("f:") and type_.map is not None:
        name = key[2:]
        return type_.map.field(name), name in type_.map.fields
    if key.startswith("k:") and type_.list is not None:
        return type_.list.element, False
    return None, False


def field_paths(fields: Fields, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every member, those of one level before those below."""
    for key, node in sorted(fields.items()):
        if key != SELF and is_member(node):
            yield (*before, key)
    for key, node in sorted(fields.items()):
        if key != SELF:
            yield from field_paths(children_of(node), (*before, key))


def format_field_path(path: tuple[str, ...]) -> str:
    """A readable path: `.spec.ports[port=80,protocol="TCP"].nodePort`."""
    return "".join(_format_element(element) for element in path)


def _format_element(element: str) -> str:
    kind, text = element[0], element[2:]
    if kind == "f":
        return f".{text}"
    if kind == "k":
        keys = msgspec.json.decode(text)
        return "[" + ",".join(f"{key}={_format_value(value)}" for key, value in sorted(keys.items())) + "]"
    return f"[={_format_value(msgspec.json.decode(text))}]" if kind == "v" else f"[{text}]"


def _format_value(value: Any) -> str:
    return _encode(value).decode()


def item_element(shape: value_types.ListType, item: Any) -> str:
    """The path element of an item of an associative list. ValueError if it has none."""
    if not shape.keys:
        if item is None or isinstance(item, list | dict):
            raise ValueError("associative list without keys has an element that's not a scalar")
        return "v:" + _encode(item).decode()
    if not isinstance(item, dict):
        kind = "a null element" if item is None else "non-map elements"
        raise ValueError(f"associative list with keys may not have {kind}")
    keys = {}
    for key in shape.keys:
        if key in item:
            keys[key] = item[key]
        elif key in shape.key_defaults:
            keys[key] = shape.key_defaults[key]
    if not keys:
        quoted = " ".join(f'"{key}"' for key in shape.keys)
        raise ValueError(
            f"associative list with keys has an element that omits all key fields [{quoted}] "
            "(and doesn't have default values for any key fields)"
        )
    return "k:" + _encode(keys).decode()


APPLY = "Apply"

UPDATE = "Update"


@dataclass(frozen=True, slots=True, order=True)
class ManagerIdentity:
    """The key of an entry. An applier has one entry for all versions, an updater one for each."""

    manager: str
    operation: str
    subresource: str = ""
    api_version: str = ""
    """Empty for appliers."""

    @classmethod
    def of(cls, manager: str, operation: str, subresource: str, api_version: str) -> "ManagerIdentity":
        return cls(manager or "unknown", operation, subresource, "" if operation == APPLY else api_version)


@dataclass(frozen=True, slots=True)
class ManagerEntry:
    """The fields of one manager, with version and time."""

    fields: Fields
    api_version: str
    time: str | None = None

    def holding(self, fields: Fields) -> "ManagerEntry":
        return ManagerEntry(fields, self.api_version, self.time)


Managers = dict[ManagerIdentity, ManagerEntry]


class MalformedManagers(ValueError):
    """managedFields that cannot be read."""


def read_managers(entries: Iterable[Any] | None) -> Managers:
    """Parse an object's managedFields."""
    managers: Managers = {}
    for i, entry in enumerate(entries or ()):
        operation, api_version = entry.get("operation"), entry.get("apiVersion", "")
        if operation not in (APPLY, UPDATE):
            raise MalformedManagers("operation must be `Apply` or `Update`")
        if not api_version:
            raise MalformedManagers("apiVersion must not be empty")
        if entry.get("fieldsType") != "FieldsV1":
            kind = entry.get("fieldsType")
            wrong = f'invalid fieldsType "{kind}"' if kind else "missing fieldsType"
            raise MalformedManagers(f"{wrong} in managed fields entry {i}")
        identity = ManagerIdentity(
            entry.get("manager", ""),
            operation,
            entry.get("subresource", ""),
            "" if operation == APPLY else api_version,
        )
        managers[identity] = ManagerEntry(entry.get("fieldsV1") or {}, api_version, entry.get("time"))
    return managers


def write_managers(managers: Managers) -> list[dict[str, Any]]:
    """Format managedFields in the server's order."""
    ordered = sorted(managers.items(), key=lambda item: _entry_order(*item))
    return [_write_entry(identity, entry) for identity, entry in ordered]


def _entry_order(identity: ManagerIdentity, entry: ManagerEntry) -> tuple[str, str, str, str, str]:
    return identity.operation, entry.time or "", identity.manager, entry.api_version, identity.subresource


def _write_entry(identity: ManagerIdentity, entry: ManagerEntry) -> dict[str, Any]:
    written: dict[str, Any] = {
        "manager": identity.manager,
        "operation": identity.operation,
        "apiVersion": entry.api_version,
    }
    if entry.time is not None:
        written["time"] = entry.time
    written |= {"fieldsType": "FieldsV1", "fieldsV1": entry.fields}
    if identity.subresource:
        written["subresource"] = identity.subresource
    return written
