"""Commands: what the command line takes, as it describes itself."""

import inspect
from collections.abc import Iterator
from typing import Any, get_args

import cyclopts

from tools import markdown_tables
from windlass import cli

_AUTOSCALER = "autoscaler"


def find() -> dict[str, cyclopts.App]:
    """Every command by name, in order."""
    return {name: cli.app[name] for name in cli.app if not name.startswith("-")}


def find_options() -> set[str]:
    """Every option of every command but the autoscaler, whose flags are a table of their own."""
    options = {"--help", "--version"}
    for command in find().values():
        for argument in command.assemble_argument_collection(parse_docstring=True):
            options |= {name for name in argument.names if name.startswith("-")}
    return options


def find_undescribed() -> Iterator[str]:
    """Options without a sentence."""
    for name, command in find().items():
        for argument in command.assemble_argument_collection(parse_docstring=True):
            if argument.show and not argument.parameter.help:
                yield f"windlass {name} {argument.names[0]}"


def page() -> str:
    lines = markdown_tables.begin(
        "Commands",
        "`windlass COMMAND --help` says the same in a terminal. `kubectl windlass …` is the same program as "
        "`windlass …`, and `cluster-autoscaler …` the same as `windlass autoscaler …`.",
    )
    for name, command in find().items():
        lines += [f"## windlass {name}", "", *_report(command)]
        if name == _AUTOSCALER:
            lines += ["Its flags are on [a page of their own](../flags.md).", ""]
        else:
            lines += list(markdown_tables.table(("option", "takes", "default", "what it does"), _rows(command)))
    return "\n".join(lines)


def _report(command: cyclopts.App) -> Iterator[str]:
    """The docstring up to its list of parameters."""
    told = inspect.cleandoc(command.help or "").partition("Parameters\n-----")[0].strip()
    for paragraph in told.split("\n\n"):
        if paragraph.startswith("windlass "):  # a sample of a command line
            yield from ("```sh", paragraph, "```", "")
        else:
            yield from (" ".join(paragraph.split()), "")


def _rows(command: cyclopts.App) -> Iterator[tuple[str, str, str, str]]:
    for argument in command.assemble_argument_collection(parse_docstring=True):
        if argument.show:
            name = ", ".join(map(markdown_tables.code, argument.names))
            yield name, _takes(argument.hint), _default(argument), argument.parameter.help or ""


def _takes(hint: Any) -> str:
    if hint is bool:
        return "nothing"
    if choices := [item for item in get_args(hint) if isinstance(item, str)]:
        return " or ".join(map(markdown_tables.code, choices))
    kinds = {int: "whole number", float: "number"}
    inner = [entry for entry in (hint, *get_args(hint)) if isinstance(entry, type)]
    word = next((kinds[one] for one in inner if one in kinds), "file" if _is_path(inner) else "text")
    return f"{word}, repeatable" if any(one in (list, tuple) for one in map(_origin, (hint, *get_args(hint)))) else word


def _is_path(kinds: list[type]) -> bool:
    return any(kind.__name__ == "Path" for kind in kinds)


def _origin(hint: Any) -> Any:
    return getattr(hint, "__origin__", hint)


def _default(argument: cyclopts.Argument) -> str:
    default = argument.field_info.default
    if default in (inspect.Parameter.empty, None, "", False):
        return ""
    return markdown_tables.code("on" if default is True else default)
