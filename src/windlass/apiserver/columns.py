"""Columns of the tables that kubectl prints."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from windlass.apiserver import jsonpath, times
from windlass.apiserver.types.model import Json

Render = Callable[[Json, float], Any]
"""A cell: from the object and the time now."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Those of priority above zero show with `-o wide` only."""

    name: str
    render: Render
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""


def name_of(obj: Json, now_s: float) -> Any:
    return obj["metadata"]["name"]


def age_of(obj: Json, now_s: float) -> Any:
    return since(obj["metadata"].get("creationTimestamp"), now_s)


NAME = Column("Name", name_of, format="name")
AGE = Column("Age", age_of)


def at(name: str, path: str, *, type_: str = "string", priority: int = 0, missing: Any = "<none>") -> Column:
    """A column that shows what is at a path, or `missing`."""
    find = jsonpath.compile_path(path) or (lambda value: [])

    def render(obj: Json, now_s: float) -> Any:
        found = find(obj)
        return found[0] if found and found[0] not in (None, "") else missing

    return Column(name, render, type_, priority=priority)


def since(time: Any, now_s: float) -> str:
    """How long ago a time was, as kubectl says it."""
    if not time:
        return "<unknown>"
    try:
        return human(now_s - times.read(time))
    except ValueError:
        return "<invalid>"


def human(seconds: float) -> str:
    """A duration in at most two units: `45s`, `3m20s`, `5h`, `12d`."""
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    total = max(total, 0)
    minutes, hours, days = total // 60, total // 3600, total // 86400
    if total < 120:
        return f"{total}s"
    if minutes < 10:
        return f"{minutes}m{total % 60}s" if total % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    years = days // 365
    rest = days % 365
    return f"{years}y{rest}d" if years < 8 and rest else f"{years}y"


def custom(spec: Json) -> Column:
    """A column of a CRD's `additionalPrinterColumns`."""
    find = jsonpath.compile_path(spec["jsonPath"]) or (lambda value: [])
    kind = spec["type"]

    def render(obj: Json, now_s: float) -> Any:
        found = find(obj)
        if not found or found[0] is None:
            return None
        if kind == "date":
            return since(found[0], now_s)
        value = found[0] if len(found) == 1 else " ".join(str(item) for item in found)
        return value if kind != "string" or isinstance(value, str) else _spell(value)

    return Column(
        spec["name"], render, kind, spec.get("format", ""), spec.get("priority", 0), spec.get("description", "")
    )


def _spell(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
