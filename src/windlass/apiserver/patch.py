"""Patches: JSON merge patch (RFC 7396) and JSON patch (RFC 6902)."""

import copy
from typing import Any

from windlass.apiserver import status
from windlass.apiserver.types.model import Json

_MOST_OPERATIONS = 10000


class CannotApply(Exception):
    """An operation that the document, as it is, does not allow."""


def merge(target: Any, patch: Any) -> Any:
    """The target with the patch merged in: null deletes, lists are replaced whole. The target may be shared."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            merged[name] = merge(merged.get(name), value)
        else:
            merged[name] = value
    return merged


def apply_operations(document: Json, operations: Any) -> Json:
    """The document after all operations, or `CannotApply`."""
    if not isinstance(operations, list):
        raise status.bad_request("error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch")
    if len(operations) > _MOST_OPERATIONS:
        allowed = f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(operations)}"
        raise status.too_large(allowed)
    root: Any = copy.deepcopy(document)
    for operation in operations:
        root = _apply(root, operation)
    if not isinstance(root, dict):
        raise CannotApply("the document is no object any more")
    return root


def _apply(root: Any, operation: Json) -> Any:
    path = _split(operation.get("path", ""))
    match operation.get("op"):
        case "add":
            return _add(root, path, _value(operation))
        case "remove":
            return _remove(root, path)
        case "replace":
            # Of maps, the real server replaces what is not there as well.
            return _replace(root, path, _value(operation))
        case "move":
            source = _split(operation.get("from", ""))
            value = _get(root, source)
            return _add(_remove(root, source), path, value)
        case "copy":
            return _add(root, path, copy.deepcopy(_get(root, _split(operation.get("from", "")))))
        case "test":
            if _find(root, path) != operation.get("value"):
                raise CannotApply(f"testing value {operation.get('path')} failed")
            return root
        case other:
            raise CannotApply(f"Unexpected kind: {other}")


def _value(operation: Json) -> Any:
    if "value" not in operation:
        raise CannotApply(f"{operation.get('op')} operation without a value")
    return operation["value"]


def _split(pointer: str) -> list[str]:
    if not pointer:
        return []
    if not pointer.startswith("/"):
        raise CannotApply(f"{pointer!r} is no JSON pointer")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/")]


def _find(root: Any, path: list[str]) -> Any:
    """What is at a path; None where nothing is, which a test for null accepts."""
    try:
        return _get(root, path)
    except CannotApply:
        return None


def _get(root: Any, path: list[str]) -> Any:
    for step in path:
        if isinstance(root, list):
            root = root[_index(root, step, len(root) - 1)]
        elif isinstance(root, dict) and step in root:
            root = root[step]
        else:
            raise CannotApply(f"missing key {step!r}")
    return root


def _index(items: list[Any], step: str, most: int) -> int:
    digits = step.removeprefix("-")
    if not digits.isdigit() or (len(step) > 1 and step.startswith("0")):
        raise CannotApply(f"{step!r} is no index")
    number = int(step)
    number = number + len(items) if number < 0 else number
    if not 0 <= number <= most:
        raise CannotApply(f"index {step} is out of bounds")
    return number


def _add(root: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, step = _get(root, path[:-1]), path[-1]
    if isinstance(parent, list):
        parent.insert(len(parent) if step == "-" else _index(parent, step, len(parent)), value)
    elif isinstance(parent, dict):
        parent[step] = value
    else:
        raise CannotApply(f"nothing can be added to {'/'.join(path[:-1])}")
    return root


def _replace(root: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, step = _get(root, path[:-1]), path[-1]
    if isinstance(parent, list):
        parent[_index(parent, step, len(parent) - 1)] = value
    elif isinstance(parent, dict):
        parent[step] = value
    else:
        raise CannotApply(f"nothing can be replaced in {'/'.join(path[:-1])}")
    return root


def _remove(root: Any, path: list[str]) -> Any:
    if not path:
        raise CannotApply("the document itself cannot be removed")
    parent, step = _get(root, path[:-1]), path[-1]
    if isinstance(parent, list):
        del parent[_index(parent, step, len(parent) - 1)]
    elif isinstance(parent, dict) and step in parent:
        del parent[step]
    else:
        raise CannotApply(f"Unable to remove nonexistent key: {step}")
    return root
