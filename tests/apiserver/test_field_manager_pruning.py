"""Whoever applies the same fields again removes none of them, whatever else is there: the step can be left out."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from windlass.apiserver import field_manager, field_sets, typed_values, value_types

_ITEM = value_types.ValueType(
    map_=value_types.MapType(
        {"name": value_types.ValueType("string"), "v": value_types.ValueType("numeric"), "free": value_types.DEDUCED}
    )
)
TYPE = value_types.ValueType(
    map_=value_types.MapType(
        {
            "struct": value_types.ValueType(
                map_=value_types.MapType({"a": value_types.ValueType("numeric"), "b": value_types.ValueType("numeric")})
            ),
            "map": value_types.ValueType(map_=value_types.MapType({}, value_types.DEDUCED)),
            "list": value_types.ValueType(list_=value_types.ListType(_ITEM, True, ("name",))),
            "set": value_types.ValueType(list_=value_types.ListType(value_types.ValueType("string"), True)),
        }
    )
)

_numbers = st.integers(0, 3)
_names = st.sampled_from("xyz")
_items = st.dictionaries(
    _names,
    st.fixed_dictionaries({}, optional={"v": _numbers, "free": st.dictionaries(_names, _numbers, max_size=2)}),
    max_size=3,
).map(lambda found: [{"name": name, **item} for name, item in sorted(found.items())])
_objects = st.fixed_dictionaries(
    {},
    optional={
        "struct": st.fixed_dictionaries({}, optional={"a": _numbers, "b": _numbers}),
        "map": st.dictionaries(_names, _numbers | st.dictionaries(_names, _numbers, max_size=2), max_size=3),
        "list": _items,
        "set": st.lists(_names, unique=True, max_size=3),
    },
)


def _with_other_numbers(value: Any, added: int) -> Any:
    if isinstance(value, dict):
        return {name: _with_other_numbers(item, added) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_other_numbers(item, added) for item in value]
    return value + added if isinstance(value, int) else value


@given(_objects, _objects, _objects, _numbers)
def test_the_same_fields_applied_again_take_nothing_away(live: Any, applied: Any, others: Any, added: int) -> None:
    again = _with_other_numbers(applied, added)
    mine = typed_values.fields_of(applied, TYPE)
    assert typed_values.fields_of(again, TYPE) == mine
    merged = field_manager.merge_applied(field_manager.merge_applied(live, applied, TYPE), again, TYPE)
    owned = field_sets.union_of(mine, typed_values.fields_of(others, TYPE))
    assert field_manager.prune_unowned(merged, mine, owned, TYPE) == merged
