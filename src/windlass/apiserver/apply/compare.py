"""What two objects of one type differ in, as sets of field paths; and the set of all fields of one object."""

from dataclasses import dataclass, field
from typing import Any

from windlass.apiserver.apply import fieldset
from windlass.apiserver.types import model

ABSENT: Any = object()
"""No value at all; null is a value."""


class Untyped(ValueError):
    """A value that its type does not allow: path and complaint, as structured-merge-diff words them."""


@dataclass(slots=True)
class Difference:
    """Fields that the second object lacks, holds otherwise, or has in addition."""

    removed: fieldset.Fields = field(default_factory=dict)
    modified: fieldset.Fields = field(default_factory=dict)
    added: fieldset.Fields = field(default_factory=dict)

    def without(self, ignored: fieldset.Fields) -> "Difference":
        if not ignored:
            return self
        cut = fieldset.subtract_trees
        return Difference(cut(self.removed, ignored), cut(self.modified, ignored), cut(self.added, ignored))


def compare(old: model.Json, new: model.Json, type_: model.Type) -> Difference:
    """What changed from old to new. Both are of the type already."""
    found = Difference()
    if type_.map is not None:
        _compare_maps(old, new, type_.map, found)
    return found


def _compare_maps(old: model.Json, new: model.Json, shape: model.Map, found: Difference) -> None:
    for name, value in new.items():
        before = old.get(name, ABSENT)
        if before is ABSENT:
            found.added["f:" + name] = everything(value, _typed(shape, name))
        elif before != value or (before.__class__ is bool) is not (value.__class__ is bool):
            _descend("f:" + name, before, value, _typed(shape, name), found)
    if len(old) != len(new) or old.keys() != new.keys():
        for name, value in old.items():
            if name not in new:
                found.removed["f:" + name] = everything(value, _typed(shape, name))


def _typed(shape: model.Map, name: str) -> model.Type:
    type_ = shape.fields.get(name, shape.element)
    if type_ is None:
        raise Untyped(f".{name}: field not declared in schema")
    return type_


def _descend(element: str, old: Any, new: Any, type_: model.Type, found: Difference) -> None:
    """Compare two values that differ, and hang what was found under their path element."""
    below = Difference()
    if isinstance(old, dict) and isinstance(new, dict) and type_.map is not None:
        is_leaf = type_.map.is_atomic or not (old or new)
        if not is_leaf:
            _compare_maps(old, new, type_.map, below)
    elif isinstance(old, list) and isinstance(new, list) and type_.list is not None:
        is_leaf = not type_.list.is_associative or not (old or new)
        if not is_leaf:
            _compare_lists(old, new, type_.list, below)
    else:
        is_leaf = _compare_kinds(old, new, type_, below)
    if is_leaf:
        found.modified[element] = {}
    elif below.modified:
        found.modified[element] = below.modified
    if below.removed:
        found.removed[element] = below.removed
    if below.added:
        found.added[element] = below.added


def _compare_kinds(old: Any, new: Any, type_: model.Type, below: Difference) -> bool:
    """Compare values of different kinds; null beside a container counts as an empty one. True: they are a leaf."""
    went, came = _granular_children(old, type_), _granular_children(new, type_)
    below.removed.update(went)
    below.added.update(came)
    if old is None or new is None:
        return not went and not came
    return not went or not came


def _granular_children(value: Any, type_: model.Type) -> fieldset.Fields:
    return fieldset.children_of(everything(value, type_)) if isinstance(value, dict | list) else {}


def _compare_lists(old: list[Any], new: list[Any], shape: model.List, found: Difference) -> None:
    before, after = _index(old, shape), _index(new, shape)
    for element in [*before, *(element for element in after if element not in before)]:
        _compare_items(element, before.get(element, []), after.get(element, []), shape, found)


def _compare_items(element: str, old: list[Any], new: list[Any], shape: model.List, found: Difference) -> None:
    """Compare the items that one path element stands for; more than one are taken as a whole."""
    if len(old) > 1 and len(new) > 1:
        if old != new:
            found.modified[element] = {}
    elif len(old) > 1:
        found.removed[element] = {}
        if new:
            found.added[element] = everything(new[0], shape.element)
    elif len(new) > 1:
        found.added[element] = {}
        if old:
            found.removed[element] = everything(old[0], shape.element)
    elif not old:
        found.added[element] = everything(new[0], shape.element)
    elif not new:
        found.removed[element] = everything(old[0], shape.element)
    elif old[0] != new[0]:
        _descend(element, old[0], new[0], shape.element, found)


def _index(items: list[Any], shape: model.List) -> dict[str, list[Any]]:
    index: dict[str, list[Any]] = {}
    for i, item in enumerate(items):
        try:
            index.setdefault(fieldset.item_element(shape, item), []).append(item)
        except ValueError as error:
            raise Untyped(f"element {i}: {error}") from None
    return index


def everything(value: Any, type_: model.Type) -> fieldset.Fields:
    """The node of a value that is there on one side only: itself and, unless it is a leaf, all below it."""
    if value.__class__ is dict and value:
        shape = type_.map
        if shape is None:
            raise Untyped(f": expected {_expected(type_)}, got {value}")
        if shape.is_atomic:
            return {}
        node: fieldset.Fields = {fieldset.SELF: {}}
        fields, element = shape.fields, shape.element
        for name, item in value.items():
            below = fields.get(name, element)
            if below is None:
                raise Untyped(f".{name}: field not declared in schema")
            node["f:" + name] = everything(item, below) if item.__class__ in _CONTAINERS else {}
        return node
    if value.__class__ is list and value and type_.list is not None and type_.list.is_associative:
        return {fieldset.SELF: {}, **_everything_listed(value, type_.list)}
    return {}


_CONTAINERS = (dict, list)


def _everything_listed(items: list[Any], shape: model.List) -> fieldset.Fields:
    return {
        element: everything(same[0], shape.element) if len(same) == 1 else {}
        for element, same in _index(items, shape).items()
    }


def fields_of(value: model.Json, type_: model.Type) -> fieldset.Fields:
    """Every leaf and every list or map item of an object; structs count only where they are empty."""
    return _fields_of_map(value, type_.map) if type_.map is not None else {}


def _fields_of_map(value: model.Json, shape: model.Map) -> fieldset.Fields:
    fields: fieldset.Fields = {}
    for name, item in value.items():
        node = _node_of(item, _typed(shape, name), is_member=name not in shape.fields or item is None or item == {})
        if node is not None:
            fields["f:" + name] = node
    return fields


def _node_of(value: Any, type_: model.Type, *, is_member: bool) -> fieldset.Fields | None:
    if isinstance(value, dict) and type_.map is not None and not type_.map.is_atomic:
        return fieldset.compose(is_member, _fields_of_map(value, type_.map))
    if isinstance(value, list) and type_.list is not None and type_.list.is_associative:
        return fieldset.compose(is_member, _fields_of_list(value, type_.list))
    return {}


def _fields_of_list(items: list[Any], shape: model.List) -> fieldset.Fields:
    fields: fieldset.Fields = {}
    for element, same in _index(items, shape).items():
        node = _node_of(same[0], shape.element, is_member=True) if len(same) == 1 else {}
        fields[element] = node or {}
    return fields


def _expected(type_: model.Type) -> str:
    return "list" if type_.list is not None else (type_.scalar or "map")
