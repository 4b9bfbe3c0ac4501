"""Sets of field paths behave as sets of paths do."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from windlass.apiserver import field_sets, value_types

Path = tuple[str, ...]
_paths = st.lists(
    st.lists(st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"']), min_size=1, max_size=4).map(tuple), max_size=8
)


def _of(paths: list[Path]) -> field_sets.Fields:
    found: field_sets.Fields = {}
    for path in paths:
        found = field_sets.union_of(found, field_sets.field_set_of_path(*path))
    return found


def _members(fields: field_sets.Fields) -> set[Path]:
    return set(field_sets.field_paths(fields))


@given(_paths)
def test_a_set_holds_what_was_put_in(paths: list[Path]) -> None:
    fields = _of(paths)
    assert _members(fields) == set(paths)
    assert all(field_sets.has_path(fields, *path) for path in paths)


@given(_paths, _paths)
def test_union_difference_and_intersection_are_those_of_paths(left: list[Path], right: list[Path]) -> None:
    a, b = _of(left), _of(right)
    assert _members(field_sets.union_of(a, b)) == set(left) | set(right)
    assert _members(field_sets.difference_of(a, b)) == set(left) - set(right)
    assert _members(field_sets.intersection_of(a, b)) == set(left) & set(right)


@given(_paths, _paths)
def test_subtracting_trees_takes_everything_below(left: list[Path], right: list[Path]) -> None:
    kept = {path for path in left if not any(path[: len(other)] == other for other in right)}
    assert _members(field_sets.subtract_trees(_of(left), _of(right))) == kept


@given(_paths, _paths)
def test_no_operation_changes_its_operands(left: list[Path], right: list[Path]) -> None:
    a, b = _of(left), _of(right)
    before = (_members(a), _members(b))
    field_sets.union_of(a, b)
    field_sets.difference_of(a, b)
    field_sets.intersection_of(a, b)
    field_sets.subtract_trees(a, b)
    assert (_members(a), _members(b)) == before


@given(_paths, _paths)
def test_an_emptied_set_is_empty(left: list[Path], right: list[Path]) -> None:
    both = field_sets.union_of(_of(left), _of(right))
    assert field_sets.difference_of(both, both) == {}


def test_named_fields_with_members_below_become_members() -> None:
    inner = value_types.ValueType(map_=value_types.MapType({"b": value_types.ValueType("string")}))
    type_ = value_types.ValueType(map_=value_types.MapType({"a": inner}, value_types.DEDUCED))
    grown = field_sets.with_named_fields({"f:a": {"f:b": {}}, "f:free": {"f:x": {}}}, type_)
    assert _members(grown) == {("f:a",), ("f:a", "f:b"), ("f:free", "f:x")}


def test_paths_are_spelled_for_people() -> None:
    path = ("f:spec", 'k:{"port":80,"protocol":"TCP"}', "f:name")
    assert field_sets.format_field_path(path) == '.spec[port=80,protocol="TCP"].name'
    assert field_sets.format_field_path(("f:tags", 'v:"a"')) == '.tags[="a"]'


def test_an_items_key_may_come_from_its_default() -> None:
    port: Any = value_types.ValueType(
        map_=value_types.MapType(
            {"port": value_types.ValueType("numeric"), "protocol": value_types.ValueType("string")}
        )
    )
    shape = value_types.ListType(port, True, ("port", "protocol"))
    shape.key_defaults = {"protocol": "TCP"}
    assert field_sets.item_element(shape, {"port": 80}) == 'k:{"port":80,"protocol":"TCP"}'
