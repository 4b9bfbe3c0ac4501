"""Sets of field paths, in the form in which managedFields writes them.

A set is a tree: `{"f:spec": {"f:replicas": {}}}`. Keys are path elements (`f:` a field, `k:` a list item by its keys,
`v:` a set's item). A node is itself a member if it is empty or has the key `.`; the root never is. Trees are shared
and never changed in place.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from windlass.apiserver.types import model

Fields = dict[str, Any]
SELF = "."

_encode = msgspec.json.Encoder().encode


def is_member(node: Fields) -> bool:
    return not node or SELF in node


def compose(node_is_member: bool, children: Fields) -> Fields | None:
    """A node from its membership and its children; None if there is nothing in it."""
    if not children:
        return {} if node_is_member else None
    return {SELF: {}, **children} if node_is_member else children


def children_of(node: Fields) -> Fields:
    return {key: child for key, child in node.items() if key != SELF} if SELF in node else node


def union(left: Fields, right: Fields) -> Fields:
    """Members of either."""
    if not left or not right:
        return left or right
    joined = dict(left)
    for key, node in right.items():
        mine = joined.get(key)
        joined[key] = node if mine is None else _join_nodes(mine, node)
    return joined


def _join_nodes(mine: Fields, other: Fields) -> Fields:
    if mine is other or not other:
        return mine if is_member(mine) else {SELF: {}, **mine}
    if not mine:
        return other if SELF in other else {SELF: {}, **other}
    return union(mine, other)


def difference(left: Fields, right: Fields) -> Fields:
    """Members of the left set that are not members of the right one. Children of a removed member stay."""
    return _select(left, right, lambda mine, other: mine and not other, keep_unmatched=True)


def intersection(left: Fields, right: Fields) -> Fields:
    """Members of both."""
    return _select(left, right, lambda mine, other: mine and other, keep_unmatched=False)


def _select(left: Fields, right: Fields, keeps: Callable[[bool, bool], bool], *, keep_unmatched: bool) -> Fields:
    selected: Fields = {}
    for key, node in left.items():
        other = right.get(key)
        if other is None:
            if keep_unmatched:
                selected[key] = node
            continue
        children = _select(children_of(node), children_of(other), keeps, keep_unmatched=keep_unmatched)
        rest = compose(keeps(is_member(node), is_member(other)), children)
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
            kept = compose(is_member(node), subtract_trees(children_of(node), other))
            if kept is not None:
                rest[key] = kept
    return rest


def has(fields: Fields, *path: str) -> bool:
    node = fields
    for element in path:
        found = node.get(element)
        if found is None:
            return False
        node = found
    return is_member(node)


def of_path(*path: str) -> Fields:
    """The set with this one member."""
    node: Fields = {}
    for element in reversed(path):
        node = {element: node}
    return node


def with_named_fields(fields: Fields, type_: model.Type | None) -> Fields:
    """The set with every declared field that has members below it made a member too."""
    if type_ is None:
        return fields
    grown: Fields = {}
    for key, node in fields.items():
        if key == SELF:
            grown[key] = node
            continue
        below, is_declared = _descend(type_, key)
        children = children_of(node)
        inner = with_named_fields(children, below) if children else children
        grown[key] = compose(is_member(node) or (is_declared and bool(children)), inner) or {}
    return grown


def _descend(type_: model.Type, key: str) -> tuple[model.Type | None, bool]:
    """The type below a path element, and whether the element is a declared field."""
    if key.startswith("f:") and type_.map is not None:
        name = key[2:]
        return type_.map.field(name), name in type_.map.fields
    if key.startswith("k:") and type_.list is not None:
        return type_.list.element, False
    return None, False


def paths(fields: Fields, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every member, those of one level before those below."""
    for key, node in sorted(fields.items()):
        if key != SELF and is_member(node):
            yield (*before, key)
    for key, node in sorted(fields.items()):
        if key != SELF:
            yield from paths(children_of(node), (*before, key))


def spell(path: tuple[str, ...]) -> str:
    """A path for people: `.spec.ports[port=80,protocol="TCP"].nodePort`."""
    return "".join(_spell_element(element) for element in path)


def _spell_element(element: str) -> str:
    kind, text = element[0], element[2:]
    if kind == "f":
        return f".{text}"
    if kind == "k":
        keys = msgspec.json.decode(text)
        return "[" + ",".join(f"{key}={_spell_value(value)}" for key, value in sorted(keys.items())) + "]"
    return f"[={_spell_value(msgspec.json.decode(text))}]" if kind == "v" else f"[{text}]"


def _spell_value(value: Any) -> str:
    return _encode(value).decode()


def item_element(shape: model.List, item: Any) -> str:
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
