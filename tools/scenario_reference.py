"""The scenario schema: what a scenario file may say, read from the structs that it is read into."""

import typing
from collections.abc import Iterator

import msgspec

from tools import markdown_tables, source_analysis
from windlass.simulator.scenario import model

_MODULE = "windlass.simulator.scenario.model"


def page() -> str:
    lines = markdown_tables.begin(
        "Scenario schema",
        "Every field of a [scenario](../scenarios.md), with its type and default. A duration is a number of seconds or "
        "text like `90s` or `1h30m`; a timing is a duration or `{median: 90s, spread: 0.3, least: 40s}`. A field that "
        "is not listed is refused, with file and line.",
    )
    for part in find():
        steps = _tag(part)
        title = f"Step `do: {steps}`" if steps else part.__name__
        lines += [f"## {title}", "", (part.__doc__ or "").split("\n\n")[0].strip(), ""]
        lines += markdown_tables.table(("field", "takes", "default", "what it says"), _rows(part))
    return "\n".join(lines)


def find() -> list[type[msgspec.Struct]]:
    """The scenario, its parts, and what can happen in it, in the order in which they are named."""
    found: list[type[msgspec.Struct]] = []
    waiting: list[type[msgspec.Struct]] = [model.Scenario]
    while waiting:
        part = waiting.pop(0)
        if part not in found:
            found.append(part)
            waiting += [item for field in msgspec.structs.fields(part) for item in _parts(field.type)]
    return found


def find_untold() -> Iterator[str]:
    """Fields without a sentence."""
    for part in find():
        yield from (f"{part.__name__}: {name}" for name, _, _, told in _rows(part) if not told)


def _parts(hint: typing.Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for inner in typing.get_args(hint):
        yield from _parts(inner)


def _rows(part: type[msgspec.Struct]) -> Iterator[tuple[str, str, str, str]]:
    told = {
        name: text for kind in ("Step", part.__name__) for name, _, text in source_analysis.find_told(_MODULE, kind)
    }
    for field in msgspec.structs.fields(part):
        default = "required" if field.required else _to_text(field)
        yield markdown_tables.code(field.encode_name), _takes(field.type), default, told.get(field.name, "")


def _tag(part: type[msgspec.Struct]) -> str:
    tag = part.__struct_config__.tag
    return tag if isinstance(tag, str) else ""


def _takes(hint: typing.Any) -> str:
    if hint is type(None):
        return ""
    names = {model.Seconds: "duration", model.Timing: "timing", str: "text", int: "whole number", float: "number"}
    names |= {bool: "true or false", model.Amounts: "amounts by resource"}
    if hint in names:
        return names[hint]
    inner, origin = typing.get_args(hint), typing.get_origin(hint)
    if origin is typing.Literal:
        return " or ".join(map(markdown_tables.code, inner))
    if origin is tuple:
        return "list of steps" if inner[0] == model.AnyStep else f"list of {_takes(inner[0])}"
    if origin is dict:
        return f"map of {_takes(inner[1])}"
    if inner:
        return " or ".join(word for item in inner if (word := _takes(item)))
    return f"[{hint.__name__}](#{hint.__name__.lower()})"


def _to_text(field: msgspec.structs.FieldInfo) -> str:
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    match value:
        case None | "" | () | {}:
            return ""
        case bool():
            return markdown_tables.code(str(value).lower())
        case model.Timing():
            spread = f", spread {value.delay.spread:g}" if value.delay.spread else ""
            return f"{value.delay.median_s:g} s{spread}"
        case model.Seconds():
            return f"{float(value):g} s"
        case tuple():
            return markdown_tables.code(", ".join(map(str, value)))
    return markdown_tables.code(value)
