"""Reading a scenario file: every mistake is told with file, line and field, before anything starts."""

import difflib
import pathlib
import re
from typing import Any

import msgspec
import yaml

from windlass import errors
from windlass.kube import nesting
from windlass.simulator.scenario import accepting, checking, model

Path = tuple[str | int, ...]

_AT = re.compile(r" - at `\$(.*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_UNKNOWN = re.compile(r"unknown field `([^`]+)`")
_INVALID = re.compile(r"invalid (?:enum )?value ('.*')$")


class BadScenario(errors.InvalidInput):
    """A scenario that cannot be played; one line for each mistake."""


def load(path: pathlib.Path) -> model.Scenario:
    try:
        text = path.read_text()
    except OSError as error:
        raise BadScenario(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise BadScenario(f"{path}: not text: {error}") from None
    return read(text, str(path))


def read(text: str, name: str) -> model.Scenario:
    """A scenario from the text of a file."""
    try:
        plain = nesting.load(text)
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        raise BadScenario(f"{name}:{line}: {getattr(error, 'problem', None) or error}") from None
    try:
        found = model.convert(plain)
    except msgspec.ValidationError as error:
        path, said = _split(str(error))
        raise BadScenario(_spell(name, tree, path, _say_accepted(plain, path, said))) from None
    mistakes = checking.find_mistakes(found)
    if mistakes:
        raise BadScenario("\n".join(_spell(name, tree, path, said) for path, said in mistakes))
    return found


def _split(text: str) -> tuple[Path, str]:
    """Where msgspec found something, and what."""
    at = _AT.search(text)
    path: list[str | int] = []
    for field, index in _STEP.findall(at[1] if at else ""):
        path.append(int(index) if index else field)
    said = text[: at.start()] if at else text
    if unknown := _UNKNOWN.search(said):
        path.append(unknown[1])
    return tuple(path), said[:1].lower() + said[1:]


def _say_accepted(plain: Any, path: Path, said: str) -> str:
    """What msgspec found, with what would do in its place."""
    if _UNKNOWN.search(said):
        fields = accepting.find_fields(plain, path[:-1])
        close = difflib.get_close_matches(str(path[-1]), fields, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return f"found an unknown field, accepted are {', '.join(fields)}{hint}"
    if invalid := _INVALID.search(said):
        return f"found {invalid[1]}, accepted is one of {', '.join(accepting.find_words(plain, path))}"
    return said


def _spell(name: str, tree: yaml.Node | None, path: Path, said: str) -> str:
    field = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
    return f"{name}:{_line(tree, path)}: {field + ': ' if field else ''}{said}"


def _line(tree: Any, path: Path) -> int:
    """The line of what is at a path, or of the innermost thing around it that is there."""
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
