"""Is a configuration of its type? Complaints in structured-merge-diff's words."""

from typing import Any

from windlass.apiserver.apply import fieldset
from windlass.apiserver.apply.compare import Untyped
from windlass.apiserver.types import model

__all__ = ["Untyped", "check"]

_DUPLICATE = "duplicate entries for key"


def check(value: model.Json, type_: model.Type, *, allow_duplicates: bool = False) -> None:
    """Raise `Untyped` with every complaint, if there is one."""
    complaints = _check(value, type_, "")
    if allow_duplicates:
        complaints = [complaint for complaint in complaints if _DUPLICATE not in complaint]
    if len(complaints) == 1:
        raise Untyped(complaints[0])
    if complaints:
        raise Untyped("\n".join(["errors:", *(f"  {complaint}" for complaint in complaints)]))


def _check(value: Any, type_: model.Type, at: str) -> list[str]:
    if value is None:
        return []
    if isinstance(value, dict) and type_.map is not None:
        return _check_map(value, type_.map, at)
    if isinstance(value, list) and type_.list is not None:
        return _check_list(value, type_.list, at)
    if type_.scalar and (type_.map is None or not isinstance(value, dict | list)):
        return _check_scalar(value, type_.scalar, at)
    if type_.map is not None:
        return [f"{at}: expected map, got {_show(value)}"]
    return [f"{at}: expected list, got {_show(value)}"]


def _check_map(value: model.Json, shape: model.Map, at: str) -> list[str]:
    complaints: list[str] = []
    for name, item in value.items():
        below = shape.field(name)
        if below is None:
            # The real one stops at the first of a map, too.
            return [*complaints, f"{at}.{name}: field not declared in schema"]
        complaints += _check(item, below, f"{at}.{name}")
    return complaints


def _check_list(items: list[Any], shape: model.List, at: str) -> list[str]:
    complaints: list[str] = []
    seen: set[str] = set()
    for i, item in enumerate(items):
        element, spelled = "", f"[{i}]"
        if shape.is_associative:
            try:
                element = fieldset.item_element(shape, item)
            except ValueError as error:
                return [*complaints, f"{at}: element {i}: {error}"]
            spelled = fieldset.spell((element,))
            if element in seen:
                complaints.append(f"{at}: {_DUPLICATE} {spelled}")
            seen.add(element)
        complaints += _check(item, shape.element, at + spelled)
    return complaints


def _check_scalar(value: Any, scalar: str, at: str) -> list[str]:
    is_container = isinstance(value, dict | list)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if scalar == "numeric" and not is_number:
        return [f"{at}: expected numeric (int or float), got {_go_type(value)}"]
    if scalar == "string" and not isinstance(value, str):
        return [f"{at}: expected string, got {_show_typed(value)}"]
    if scalar == "boolean" and not isinstance(value, bool):
        return [f"{at}: expected boolean, got {_show(value)}"]
    if scalar == "untyped" and is_container:
        return [f"{at}: expected any scalar, got {_show(value)}"]
    return []


def _go_type(value: Any) -> str:
    names = {str: "string", bool: "bool", dict: "map[string]interface {}", list: "[]interface {}"}
    return names.get(type(value), "nil")


def _show(value: Any) -> str:
    """A value as Go prints it in the real complaint (`%v`)."""
    return f"&{{{_plain(value)}}}"


def _plain(value: Any) -> str:
    match value:
        case None:
            return "<nil>"
        case bool():
            return str(value).lower()
        case list():
            return f"[{' '.join(_plain(item) for item in value)}]"
        case dict():
            return f"map[{' '.join(f'{key}:{_plain(item)}' for key, item in sorted(value.items()))}]"
        case _:
            return str(value)


def _show_typed(value: Any) -> str:
    """A value as Go prints it with its types (`%#v`)."""
    return f"&value.valueUnstructured{{Value:{_typed(value)}}}"


def _typed(value: Any) -> str:
    match value:
        case str():
            return f'"{value}"'
        case list():
            return f"[]interface {{}}{{{', '.join(_typed(item) for item in value)}}}"
        case dict():
            inner = ", ".join(f'"{key}":{_typed(item)}' for key, item in sorted(value.items()))
            return f"map[string]interface {{}}{{{inner}}}"
        case _:
            return _plain(value)
