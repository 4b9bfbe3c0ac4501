"""Removing fields from an object, and which fields an apply removes: those its manager owned, and nobody owns now."""

from typing import Any

from windlass.apiserver.apply import compare, fieldset
from windlass.apiserver.types import model

Fields = fieldset.Fields


def remove(value: Any, fields: Fields, type_: model.Type) -> Any:
    """The value without the members of the set. A container that loses everything becomes null."""
    if isinstance(value, dict) and type_.map is not None:
        return _remove_from_map(value, fields, type_.map)
    if isinstance(value, list) and type_.list is not None:
        return _remove_from_list(value, fields, type_.list)
    return value


def _remove_from_map(value: model.Json, fields: Fields, shape: model.Map) -> model.Json | None:
    if shape.is_atomic:
        return None
    rest = {}
    for name, item in value.items():
        node = fields.get("f:" + name)
        if node is None:
            rest[name] = item
        elif not fieldset.is_member(node):
            rest[name] = remove(item, node, shape.field(name) or model.DEDUCED)
    return rest or None


def _remove_from_list(items: list[Any], fields: Fields, shape: model.List) -> list[Any] | None:
    if not shape.is_associative:
        return None
    rest = []
    for item in items:
        node = fields.get(fieldset.item_element(shape, item))
        if node is None:
            rest.append(item)
        elif not fieldset.is_member(node):
            rest.append(remove(item, node, shape.element))
    return rest or None


def prune(merged: model.Json, last: Fields, owned: Fields, type_: model.Type) -> model.Json:
    """The merged object without what its manager applied `last` time and nobody owns any more.

    `owned` is what all managers own now, the applying one with its new configuration.
    """
    if not last:
        return merged

    def named(fields: Fields) -> Fields:
        return fieldset.with_named_fields(fields, type_)

    def of(value: model.Json) -> Fields:
        return named(compare.fields_of(value, type_))

    everything = of(merged)
    without_last = remove(merged, named(last), type_) or {}
    dispensable = fieldset.difference(everything, fieldset.union(of(without_last), named(owned)))
    with_owned = remove(merged, dispensable, type_) or {}
    # Of what goes by then, only what the manager itself owned may go.
    gone = fieldset.difference(everything, of(with_owned))
    return remove(merged, fieldset.intersection(gone, named(last)), type_) or {}
