"""Typed values, as in structured-merge-diff: type check of an object, and the fields in which two objects differ."""

from dataclasses import dataclass, field
from typing import Any

from windlass.apiserver import field_sets, value_types

ABSENT: Any = object()
"""Marks an absent value; null is a value."""


class TypeMismatch(ValueError):
    """A value of the wrong type; path and message are those of structured-merge-diff."""


@dataclass(slots=True)
class Difference:
    """Fields that the second object lacks, holds otherwise, or has in addition."""

    removed: field_sets.Fields = field(default_factory=dict)
    modified: field_sets.Fields = field(default_factory=dict)
    added: field_sets.Fields = field(default_factory=dict)

    def without(self, ignored: field_sets.Fields) -> "Difference":
        if not ignored:
            return self
        cut = field_sets.subtract_trees
        return Difference(cut(self.removed, ignored), cut(self.modified, ignored), cut(self.added, ignored))


def compare_values(old: value_types.Json, new: value_types.Json, type_: value_types.ValueType) -> Difference:
    """The difference from old to new, both of the given type."""
    difference = Difference()
    if type_.map is not None:
        _compare_maps(old, new, type_.map, difference)
    return difference


def _compare_maps(
    old: value_types.Json, new: value_types.Json, shape: value_types.MapType, difference: Difference
) -> None:
    for name, value in new.items():
        before = old.get(name, ABSENT)
        if before is ABSENT:
            difference.added["f:" + name] = all_fields(value, _field_type(shape, name))
        elif before != value or (before.__class__ is bool) is not (value.__class__ is bool):
            _descend("f:" + name, before, value, _field_type(shape, name), difference)
    if len(old) != len(new) or old.keys() != new.keys():
        for name, value in old.items():
            if name not in new:
                difference.removed["f:" + name] = all_fields(value, _field_type(shape, name))


def _field_type(shape: value_types.MapType, name: str) -> value_types.ValueType:
    type_ = shape.fields.get(name, shape.element)
    if type_ is None:
        raise TypeMismatch(f".{name}: field not declared in schema")
    return type_


def _descend(element: str, old: Any, new: Any, type_: value_types.ValueType, difference: Difference) -> None:
    """Compare two values, and add differences under their path element."""
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
        difference.modified[element] = {}
    elif below.modified:
        difference.modified[element] = below.modified
    if below.removed:
        difference.removed[element] = below.removed
    if below.added:
        difference.added[element] = below.added


def _compare_kinds(old: Any, new: Any, type_: value_types.ValueType, below: Difference) -> bool:
    """Compare values of different kinds; null beside a container counts as an empty one. True: they are a leaf."""
    went, came = _granular_children(old, type_), _granular_children(new, type_)
    below.removed.update(went)
    below.added.update(came)
    if old is None or new is None:
        return not went and not came
    return not went or not came


def _granular_children(value: Any, type_: value_types.ValueType) -> field_sets.Fields:
    return field_sets.children_of(all_fields(value, type_)) if isinstance(value, dict | list) else {}


def _compare_lists(old: list[Any], new: list[Any], shape: value_types.ListType, difference: Difference) -> None:
    before, after = _index_items(old, shape), _index_items(new, shape)
    for element in [*before, *(element for element in after if element not in before)]:
        _compare_items(element, before.get(element, []), after.get(element, []), shape, difference)


def _compare_items(
    element: str, old: list[Any], new: list[Any], shape: value_types.ListType, difference: Difference
) -> None:
    """Compare the items that one path element stands for; more than one are taken as a whole."""
    if len(old) > 1 and len(new) > 1:
        if old != new:
            difference.modified[element] = {}
    elif len(old) > 1:
        difference.removed[element] = {}
        if new:
            difference.added[element] = all_fields(new[0], shape.element)
    elif len(new) > 1:
        difference.added[element] = {}
        if old:
            difference.removed[element] = all_fields(old[0], shape.element)
    elif not old:
        difference.added[element] = all_fields(new[0], shape.element)
    elif not new:
        difference.removed[element] = all_fields(old[0], shape.element)
    elif old[0] != new[0]:
        _descend(element, old[0], new[0], shape.element, difference)


def _index_items(items: list[Any], shape: value_types.ListType) -> dict[str, list[Any]]:
    index: dict[str, list[Any]] = {}
    for i, item in enumerate(items):
        try:
            index.setdefault(field_sets.item_element(shape, item), []).append(item)
        except ValueError as error:
            raise TypeMismatch(f"element {i}: {error}") from None
    return index


def all_fields(value: Any, type_: value_types.ValueType) -> field_sets.Fields:
    """The node of a value that exists on one side only: itself and all nodes below it."""
    if value.__class__ is dict and value:
        shape = type_.map
        if shape is None:
            raise TypeMismatch(f": expected {_expected(type_)}, got {value}")
        if shape.is_atomic:
            return {}
        node: field_sets.Fields = {field_sets.SELF: {}}
        fields, element = shape.fields, shape.element
        for name, item in value.items():
            below = fields.get(name, element)
            if below is None:
                raise TypeMismatch(f".{name}: field not declared in schema")
            node["f:" + name] = all_fields(item, below) if item.__class__ in _CONTAINERS else {}
        return node
    if value.__class__ is list and value and type_.list is not None and type_.list.is_associative:
        return {field_sets.SELF: {}, **_everything_listed(value, type_.list)}
    return {}


_CONTAINERS = (dict, list)


def _everything_listed(items: list[Any], shape: value_types.ListType) -> field_sets.Fields:
    return {
        element: all_fields(same[0], shape.element) if len(same) == 1 else {}
        for element, same in _index_items(items, shape).items()
    }


def fields_of(value: value_types.Json, type_: value_types.ValueType) -> field_sets.Fields:
    """Every leaf and every list or map item of an object; structs count only where they are empty."""
    return _fields_of_map(value, type_.map) if type_.map is not None else {}


def _fields_of_map(value: value_types.Json, shape: value_types.MapType) -> field_sets.Fields:
    fields: field_sets.Fields = {}
    for name, item in value.items():
        node = _node_of(
            item, _field_type(shape, name), is_member=name not in shape.fields or item is None or item == {}
        )
        if node is not None:
            fields["f:" + name] = node
    return fields


def _node_of(value: Any, type_: value_types.ValueType, *, is_member: bool) -> field_sets.Fields | None:
    if isinstance(value, dict) and type_.map is not None and not type_.map.is_atomic:
        return field_sets.compose_node(is_member, _fields_of_map(value, type_.map))
    if isinstance(value, list) and type_.list is not None and type_.list.is_associative:
        return field_sets.compose_node(is_member, _fields_of_list(value, type_.list))
    return {}


def _fields_of_list(items: list[Any], shape: value_types.ListType) -> field_sets.Fields:
    fields: field_sets.Fields = {}
    for element, same in _index_items(items, shape).items():
        node = _node_of(same[0], shape.element, is_member=True) if len(same) == 1 else {}
        fields[element] = node or {}
    return fields


def _expected(type_: value_types.ValueType) -> str:
    return "list" if type_.list is not None else (type_.scalar or "map")


_DUPLICATE = "duplicate entries for key"


def check_typed(value: value_types.Json, type_: value_types.ValueType, *, allow_duplicates: bool = False) -> None:
    """Raise `TypeMismatch` with all errors, if there are any."""
    complaints = _check_value(value, type_, "")
    if allow_duplicates:
        complaints = [complaint for complaint in complaints if _DUPLICATE not in complaint]
    if len(complaints) == 1:
        raise TypeMismatch(complaints[0])
    if complaints:
        raise TypeMismatch("\n".join(["errors:", *(f"  {complaint}" for complaint in complaints)]))


def _check_value(value: Any, type_: value_types.ValueType, at: str) -> list[str]:
    if value is None:
        return []
    if isinstance(value, dict) and type_.map is not None:
        return _check_map(value, type_.map, at)
    if isinstance(value, list) and type_.list is not None:
        return _check_list(value, type_.list, at)
    if type_.scalar and (type_.map is None or not isinstance(value, dict | list)):
        return _check_scalar(value, type_.scalar, at)
    if type_.map is not None:
        return [f"{at}: expected map, got {_format_go(value)}"]
    return [f"{at}: expected list, got {_format_go(value)}"]


def _check_map(value: value_types.Json, shape: value_types.MapType, at: str) -> list[str]:
    complaints: list[str] = []
    for name, item in value.items():
        below = shape.field(name)
        if below is None:
            # kube-apiserver stops at the first of a map, too.
            return [*complaints, f"{at}.{name}: field not declared in schema"]
        complaints += _check_value(item, below, f"{at}.{name}")
    return complaints


def _check_list(items: list[Any], shape: value_types.ListType, at: str) -> list[str]:
    complaints: list[str] = []
    seen: set[str] = set()
    for i, item in enumerate(items):
        element, spelled = "", f"[{i}]"
        if shape.is_associative:
            try:
                element = field_sets.item_element(shape, item)
            except ValueError as error:
                return [*complaints, f"{at}: element {i}: {error}"]
            spelled = field_sets.format_field_path((element,))
            if element in seen:
                complaints.append(f"{at}: {_DUPLICATE} {spelled}")
            seen.add(element)
        complaints += _check_value(item, shape.element, at + spelled)
    return complaints


def _check_scalar(value: Any, scalar: str, at: str) -> list[str]:
    is_container = isinstance(value, dict | list)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if scalar == "numeric" and not is_number:
        return [f"{at}: expected numeric (int or float), got {_go_type(value)}"]
    if scalar == "string" and not isinstance(value, str):
        return [f"{at}: expected string, got {_format_go_typed(value)}"]
    if scalar == "boolean" and not isinstance(value, bool):
        return [f"{at}: expected boolean, got {_format_go(value)}"]
    if scalar == "untyped" and is_container:
        return [f"{at}: expected any scalar, got {_format_go(value)}"]
    return []


def _go_type(value: Any) -> str:
    names = {str: "string", bool: "bool", dict: "map[string]interface {}", list: "[]interface {}"}
    return names.get(type(value), "nil")


def _format_go(value: Any) -> str:
    """A value as Go prints it in the error (`%v`)."""
    return f"&{{{_format_plain(value)}}}"


def _format_plain(value: Any) -> str:
    match value:
        case None:
            return "<nil>"
        case bool():
            return str(value).lower()
        case list():
            return f"[{' '.join(_format_plain(item) for item in value)}]"
        case dict():
            return f"map[{' '.join(f'{key}:{_format_plain(item)}' for key, item in sorted(value.items()))}]"
        case _:
            return str(value)


def _format_go_typed(value: Any) -> str:
    """A value as Go prints it with its types (`%#v`)."""
    return f"&value.valueUnstructured{{Value:{_format_typed(value)}}}"


def _format_typed(value: Any) -> str:
    match value:
        case str():
            return f'"{value}"'
        case list():
            return f"[]interface {{}}{{{', '.join(_format_typed(item) for item in value)}}}"
        case dict():
            inner = ", ".join(f'"{key}":{_format_typed(item)}' for key, item in sorted(value.items()))
            return f"map[string]interface {{}}{{{inner}}}"
        case _:
            return _format_plain(value)
