"""Scenario loader: YAML to `model.Scenario`; every mistake is reported with file, line and field.

For an unknown field or value, the message lists the accepted ones.
"""

import difflib
import pathlib
import re
from typing import Any

import msgspec
import yaml
from msgspec import inspect

from windlass import errors
from windlass.kube import yaml_documents
from windlass.simulator.scenario import model, validation

Path = tuple[str | int, ...]


def accepted_fields(plain: Any, path: Path) -> list[str]:
    """Accepted fields at a path of a partly valid file; none where the schema has no object."""
    return sorted({name for part in _parts_at(plain, path) for name in _fields_of(part)})


def accepted_values(plain: Any, path: Path) -> list[str]:
    """Accepted values of the field at a path; none where any value is accepted."""
    found: list[str] = []
    for part in _parts_of(_type_at(plain, path[:-1])):
        found += [str(part.tag)] if part.tag_field == path[-1] else []
        for field in part.fields:
            if field.encode_name == path[-1]:
                found += [str(word) for item in _options(field.type) if isinstance(item, inspect.LiteralType)
                          for word in item.values]  # fmt: skip
    return sorted(set(found))


def _fields_of(part: inspect.StructType) -> list[str]:
    return [*([part.tag_field] if part.tag_field else []), *(field.encode_name for field in part.fields)]


def _parts_at(plain: Any, path: Path) -> list[inspect.StructType]:
    """The schema type at a path, or several candidates; the tag field selects one of them."""
    parts = _parts_of(_type_at(plain, path))
    there = plain
    for step in path:
        there = there[step]
    chosen = [item for item in parts if item.tag_field is None or there.get(item.tag_field) == item.tag]
    return chosen or parts


def _type_at(plain: Any, path: Path) -> inspect.Type | None:
    found: inspect.Type | None = inspect.type_info(model.Scenario)
    for number, step in enumerate(path):
        if isinstance(step, int):
            found = next((item.item_type for item in _options(found) if isinstance(item, inspect.VarTupleType)), None)
            continue
        fields = [field for part in _parts_at(plain, path[:number]) for field in part.fields]
        found = next((field.type for field in fields if field.encode_name == step), None)
    return found


def _parts_of(found: inspect.Type | None) -> list[inspect.StructType]:
    return [item for item in _options(found) if isinstance(item, inspect.StructType)]


def _options(found: inspect.Type | None) -> tuple[inspect.Type, ...]:
    if found is None:
        return ()
    return found.types if isinstance(found, inspect.UnionType) else (found,)


_AT = re.compile(r" - at `\$(.*)`$")

_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")

_UNKNOWN = re.compile(r"unknown field `([^`]+)`")

_INVALID = re.compile(r"invalid (?:enum )?value ('.*')$")


class InvalidScenario(errors.InvalidInput):
    """An invalid scenario; one line for each mistake."""


def load_scenario(path: pathlib.Path) -> model.Scenario:
    try:
        text = path.read_text()
    except OSError as error:
        raise InvalidScenario(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InvalidScenario(f"{path}: not text: {error}") from None
    return parse_scenario(text, str(path))


def parse_scenario(text: str, name: str) -> model.Scenario:
    """A scenario from the text of a file."""
    try:
        plain = yaml_documents.load_yaml(text)
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        raise InvalidScenario(f"{name}:{line}: {getattr(error, 'problem', None) or error}") from None
    try:
        scenario = model.convert(plain)
    except msgspec.ValidationError as error:
        path, said = _split_error(str(error))
        raise InvalidScenario(_format_mistake(name, tree, path, _describe_accepted(plain, path, said))) from None
    mistakes = validation.validate(scenario)
    if mistakes:
        raise InvalidScenario("\n".join(_format_mistake(name, tree, path, said) for path, said in mistakes))
    return scenario


def _split_error(text: str) -> tuple[Path, str]:
    """Path and text of an error of msgspec."""
    at = _AT.search(text)
    path: list[str | int] = []
    for field, index in _STEP.findall(at[1] if at else ""):
        path.append(int(index) if index else field)
    said = text[: at.start()] if at else text
    if unknown := _UNKNOWN.search(said):
        path.append(unknown[1])
    return tuple(path), said[:1].lower() + said[1:]


def _describe_accepted(plain: Any, path: Path, said: str) -> str:
    """The text of an error of msgspec, with the accepted fields or values."""
    if _UNKNOWN.search(said):
        fields = accepted_fields(plain, path[:-1])
        close = difflib.get_close_matches(str(path[-1]), fields, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return f"found an unknown field, accepted are {', '.join(fields)}{hint}"
    if invalid := _INVALID.search(said):
        return f"found {invalid[1]}, accepted is one of {', '.join(accepted_values(plain, path))}"
    return said


def _format_mistake(name: str, tree: yaml.Node | None, path: Path, said: str) -> str:
    field = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
    return f"{name}:{_line_of(tree, path)}: {field + ': ' if field else ''}{said}"


def _line_of(tree: Any, path: Path) -> int:
    """The line of a path, or of its innermost existing parent."""
    line = 1
    for step in path:
        if isinstance(tree, yaml.MappingNode):
            found = [(key, value) for key, value in tree.value if key.value == step]
            if not found:
                return line
            line, tree = found[0][0].start_mark.line + 1, found[0][1]
        elif isinstance(tree, yaml.SequenceNode) and isinstance(step, int) and step < len(tree.value):
            tree = tree.value[step]
            line = tree.start_mark.line + 1
    return line
