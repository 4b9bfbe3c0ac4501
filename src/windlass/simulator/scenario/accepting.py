"""What a scenario file may say at a place: the fields of a part, the words of a field. The model itself is asked."""

from typing import Any

from msgspec import inspect

from windlass.simulator.scenario import model

Path = tuple[str | int, ...]


def find_fields(plain: Any, path: Path) -> list[str]:
    """Fields of the part at this path of a file, most of which was read; none where there is no part."""
    return sorted({name for part in _parts_at(plain, path) for name in _fields_of(part)})


def find_words(plain: Any, path: Path) -> list[str]:
    """Words that the field at this path may have; none where any will do."""
    found: list[str] = []
    for part in _parts_of(_type_at(plain, path[:-1])):
        found += [str(part.tag)] if part.tag_field == path[-1] else []
        for field in part.fields:
            if field.encode_name == path[-1]:
                found += [str(word) for one in _options(field.type) if isinstance(one, inspect.LiteralType)
                          for word in one.values]  # fmt: skip
    return sorted(set(found))


def _fields_of(part: inspect.StructType) -> list[str]:
    return [*([part.tag_field] if part.tag_field else []), *(field.encode_name for field in part.fields)]


def _parts_at(plain: Any, path: Path) -> list[inspect.StructType]:
    """The part, or those that it may be; what it says it is decides between several."""
    parts = _parts_of(_type_at(plain, path))
    there = plain
    for step in path:
        there = there[step]
    chosen = [one for one in parts if one.tag_field is None or there.get(one.tag_field) == one.tag]
    return chosen or parts


def _type_at(plain: Any, path: Path) -> inspect.Type | None:
    found: inspect.Type | None = inspect.type_info(model.Scenario)
    for number, step in enumerate(path):
        if isinstance(step, int):
            found = next((one.item_type for one in _options(found) if isinstance(one, inspect.VarTupleType)), None)
            continue
        fields = [field for part in _parts_at(plain, path[:number]) for field in part.fields]
        found = next((field.type for field in fields if field.encode_name == step), None)
    return found


def _parts_of(found: inspect.Type | None) -> list[inspect.StructType]:
    return [one for one in _options(found) if isinstance(one, inspect.StructType)]


def _options(found: inspect.Type | None) -> tuple[inspect.Type, ...]:
    if found is None:
        return ()
    return found.types if isinstance(found, inspect.UnionType) else (found,)
