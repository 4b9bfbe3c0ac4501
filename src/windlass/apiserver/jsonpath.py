"""JSON paths as CRDs write them: `.status.conditions[?(@.type=="Ready")].status`."""

import functools
import re
from collections.abc import Callable
from typing import Any

_STEP = re.compile(
    r"""\.(?P<name>(?:[^.\[\]\\]|\\.)+)
      | \[\?\(@\.(?P<field>[\w.\-/]+)\s*==\s*(?P<quote>["'])(?P<value>.*?)(?P=quote)\)\]
      | \[(?P<index>-?\d+)\]
      | \[(?P<all>\*)\]
      | \[(?P<mark>["'])(?P<key>.*?)(?P=mark)\]""",
    re.VERBOSE,
)

Find = Callable[[Any], list[Any]]


@functools.lru_cache(maxsize=1024)
def compile_path(path: str) -> Find | None:
    """What finds the values at a path; None if the path is of a kind that is not known here."""
    path = path if path.startswith(".") or path.startswith("[") else f".{path}"
    steps: list[Find] = []
    at = 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return None
        steps.append(_make_step(step))
        at = step.end()

    def find(value: Any) -> list[Any]:
        found = [value]
        for take in steps:
            found = [item for value in found for item in take(value)]
        return found

    return find


def _make_step(step: re.Match[str]) -> Find:
    if step["name"] is not None or step["key"] is not None:
        name = re.sub(r"\\(.)", r"\1", step["name"] or step["key"])
        return lambda value: [value[name]] if isinstance(value, dict) and name in value else []
    if step["index"] is not None:
        index = int(step["index"])
        return lambda value: value[index : index + 1 or None] if isinstance(value, list) else []
    if step["all"] is not None:
        return lambda value: list(value.values() if isinstance(value, dict) else value or ())
    field, wanted = step["field"].split("."), step["value"]
    return lambda value: [item for item in value or () if _is_at(item, field, wanted)] if value else []


def _is_at(item: Any, field: list[str], wanted: str) -> bool:
    for name in field:
        if not isinstance(item, dict):
            return False
        item = item.get(name)
    return str(item) == wanted
