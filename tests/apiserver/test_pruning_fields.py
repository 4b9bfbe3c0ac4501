"""Whoever applies the same fields again removes none of them, whatever else is there: the step can be left out."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from windlass.apiserver.apply import compare, fieldset, merge, prune
from windlass.apiserver.types import model

_ITEM = model.Type(map_=model.Map({"name": model.Type("string"), "v": model.Type("numeric"), "free": model.DEDUCED}))
TYPE = model.Type(
    map_=model.Map(
        {
            "struct": model.Type(map_=model.Map({"a": model.Type("numeric"), "b": model.Type("numeric")})),
            "map": model.Type(map_=model.Map({}, model.DEDUCED)),
            "list": model.Type(list_=model.List(_ITEM, True, ("name",))),
            "set": model.Type(list_=model.List(model.Type("string"), True)),
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
    mine = compare.fields_of(applied, TYPE)
    assert compare.fields_of(again, TYPE) == mine
    merged = merge.merge(merge.merge(live, applied, TYPE), again, TYPE)
    owned = fieldset.union(mine, compare.fields_of(others, TYPE))
    assert prune.prune(merged, mine, owned, TYPE) == merged
