"""Sets of field paths behave as sets of paths do."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from windlass.apiserver.apply import fieldset
from windlass.apiserver.types import model

Path = tuple[str, ...]
_paths = st.lists(
    st.lists(st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"']), min_size=1, max_size=4).map(tuple), max_size=8
)


def _of(paths: list[Path]) -> fieldset.Fields:
    found: fieldset.Fields = {}
    for path in paths:
        found = fieldset.union(found, fieldset.of_path(*path))
    return found


def _members(fields: fieldset.Fields) -> set[Path]:
    return set(fieldset.paths(fields))


@given(_paths)
def test_a_set_holds_what_was_put_in(paths: list[Path]) -> None:
    fields = _of(paths)
    assert _members(fields) == set(paths)
    assert all(fieldset.has(fields, *path) for path in paths)


@given(_paths, _paths)
def test_union_difference_and_intersection_are_those_of_paths(left: list[Path], right: list[Path]) -> None:
    a, b = _of(left), _of(right)
    assert _members(fieldset.union(a, b)) == set(left) | set(right)
    assert _members(fieldset.difference(a, b)) == set(left) - set(right)
    assert _members(fieldset.intersection(a, b)) == set(left) & set(right)


@given(_paths, _paths)
def test_subtracting_trees_takes_everything_below(left: list[Path], right: list[Path]) -> None:
    kept = {path for path in left if not any(path[: len(other)] == other for other in right)}
    assert _members(fieldset.subtract_trees(_of(left), _of(right))) == kept


@given(_paths, _paths)
def test_no_operation_changes_its_operands(left: list[Path], right: list[Path]) -> None:
    a, b = _of(left), _of(right)
    before = (_members(a), _members(b))
    fieldset.union(a, b)
    fieldset.difference(a, b)
    fieldset.intersection(a, b)
    fieldset.subtract_trees(a, b)
    assert (_members(a), _members(b)) == before


@given(_paths, _paths)
def test_an_emptied_set_is_empty(left: list[Path], right: list[Path]) -> None:
    both = fieldset.union(_of(left), _of(right))
    assert fieldset.difference(both, both) == {}


def test_named_fields_with_members_below_become_members() -> None:
    inner = model.Type(map_=model.Map({"b": model.Type("string")}))
    type_ = model.Type(map_=model.Map({"a": inner}, model.DEDUCED))
    grown = fieldset.with_named_fields({"f:a": {"f:b": {}}, "f:free": {"f:x": {}}}, type_)
    assert _members(grown) == {("f:a",), ("f:a", "f:b"), ("f:free", "f:x")}


def test_paths_are_spelled_for_people() -> None:
    path = ("f:spec", 'k:{"port":80,"protocol":"TCP"}', "f:name")
    assert fieldset.spell(path) == '.spec[port=80,protocol="TCP"].name'
    assert fieldset.spell(("f:tags", 'v:"a"')) == '.tags[="a"]'


def test_an_items_key_may_come_from_its_default() -> None:
    port: Any = model.Type(map_=model.Map({"port": model.Type("numeric"), "protocol": model.Type("string")}))
    shape = model.List(port, True, ("port", "protocol"))
    shape.key_defaults = {"protocol": "TCP"}
    assert fieldset.item_element(shape, {"port": 80}) == 'k:{"port":80,"protocol":"TCP"}'
