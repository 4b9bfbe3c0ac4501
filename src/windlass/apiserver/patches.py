"""Patch algorithms: JSON merge patch (RFC 7396), JSON patch (RFC 6902) and strategic merge patch.

A strategic merge patch merges the items of some lists by a key, or as a set. Which lists those are follows the tags of
the Go types (`patchStrategy`, `patchMergeKey`), not server-side apply.
"""

import copy
from typing import Any

from windlass.apiserver import status_errors
from windlass.apiserver.value_types import Json

_MOST_OPERATIONS = 10000


class PatchNotApplicable(Exception):
    """An operation that cannot be applied to the document."""


def merge_patch(target: Any, patch: Any) -> Any:
    """The target with the patch merged in: null deletes, lists are replaced whole. The target may be shared."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            merged[name] = merge_patch(merged.get(name), value)
        else:
            merged[name] = value
    return merged


def json_patch(document: Json, operations: Any) -> Json:
    """The document after all operations, or `PatchNotApplicable`."""
    if not isinstance(operations, list):
        raise status_errors.bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch"
        )
    if len(operations) > _MOST_OPERATIONS:
        allowed = f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(operations)}"
        raise status_errors.too_large(allowed)
    root: Any = copy.deepcopy(document)
    for operation in operations:
        root = _apply_operation(root, operation)
    if not isinstance(root, dict):
        raise PatchNotApplicable("the document is no object any more")
    return root


def _apply_operation(root: Any, operation: Json) -> Any:
    path = _split_pointer(operation.get("path", ""))
    match operation.get("op"):
        case "add":
            return _add_value(root, path, _operation_value(operation))
        case "remove":
            return _remove_value(root, path)
        case "replace":
            # The real server also replaces missing keys of maps.
            return _replace_value(root, path, _operation_value(operation))
        case "move":
            source = _split_pointer(operation.get("from", ""))
            value = _get_step(root, source)
            return _add_value(_remove_value(root, source), path, value)
        case "copy":
            return _add_value(root, path, copy.deepcopy(_get_step(root, _split_pointer(operation.get("from", "")))))
        case "test":
            if _find_path(root, path) != operation.get("value"):
                raise PatchNotApplicable(f"testing value {operation.get('path')} failed")
            return root
        case other:
            raise PatchNotApplicable(f"Unexpected kind: {other}")


def _operation_value(operation: Json) -> Any:
    if "value" not in operation:
        raise PatchNotApplicable(f"{operation.get('op')} operation without a value")
    return operation["value"]


def _split_pointer(pointer: str) -> list[str]:
    if not pointer:
        return []
    if not pointer.startswith("/"):
        raise PatchNotApplicable(f"{pointer!r} is no JSON pointer")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/")]


def _find_path(root: Any, path: list[str]) -> Any:
    """The value at a path; None if absent, which a test for null accepts."""
    try:
        return _get_step(root, path)
    except PatchNotApplicable:
        return None


def _get_step(root: Any, path: list[str]) -> Any:
    for step in path:
        if isinstance(root, list):
            root = root[_list_index(root, step, len(root) - 1)]
        elif isinstance(root, dict) and step in root:
            root = root[step]
        else:
            raise PatchNotApplicable(f"missing key {step!r}")
    return root


def _list_index(items: list[Any], step: str, most: int) -> int:
    digits = step.removeprefix("-")
    if not digits.isdigit() or (len(step) > 1 and step.startswith("0")):
        raise PatchNotApplicable(f"{step!r} is no index")
    number = int(step)
    number = number + len(items) if number < 0 else number
    if not 0 <= number <= most:
        raise PatchNotApplicable(f"index {step} is out of bounds")
    return number


def _add_value(root: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, step = _get_step(root, path[:-1]), path[-1]
    if isinstance(parent, list):
        parent.insert(len(parent) if step == "-" else _list_index(parent, step, len(parent)), value)
    elif isinstance(parent, dict):
        parent[step] = value
    else:
        raise PatchNotApplicable(f"nothing can be added to {'/'.join(path[:-1])}")
    return root


def _replace_value(root: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, step = _get_step(root, path[:-1]), path[-1]
    if isinstance(parent, list):
        parent[_list_index(parent, step, len(parent) - 1)] = value
    elif isinstance(parent, dict):
        parent[step] = value
    else:
        raise PatchNotApplicable(f"nothing can be replaced in {'/'.join(path[:-1])}")
    return root


def _remove_value(root: Any, path: list[str]) -> Any:
    if not path:
        raise PatchNotApplicable("the document itself cannot be removed")
    parent, step = _get_step(root, path[:-1]), path[-1]
    if isinstance(parent, list):
        del parent[_list_index(parent, step, len(parent) - 1)]
    elif isinstance(parent, dict) and step in parent:
        del parent[step]
    else:
        raise PatchNotApplicable(f"Unable to remove nonexistent key: {step}")
    return root


_MERGE_KEYS = {
    "conditions": "type", "containers": "name", "initContainers": "name", "ephemeralContainers": "name", "env": "name",
    "volumes": "name", "volumeMounts": "mountPath", "volumeDevices": "devicePath", "imagePullSecrets": "name",
    "hostAliases": "ip", "topologySpreadConstraints": "topologyKey", "resourceClaims": "name",
    "schedulingGates": "name", "podIPs": "ip", "hostIPs": "ip", "resourceClaimStatuses": "name", "addresses": "type",
    "secrets": "name", "ownerReferences": "uid", "drivers": "name",
}  # fmt: skip
"""Lists of objects that are merged, with their merge keys."""

_SET_LISTS = ("finalizers", "podCIDRs")
"""Lists of scalars that are merged."""

_DIRECTIVE, _RETAIN, _ORDER, _DROP = "$patch", "$retainKeys", "$setElementOrder/", "$deleteFromPrimitiveList/"


class MalformedPatch(ValueError):
    """An invalid patch."""


def strategic_merge_patch(live: Json, patch: Any) -> Json:
    """The live object with a patch merged in."""
    if not isinstance(patch, dict):
        raise MalformedPatch("the patch is no object")
    merged = _merge_maps(copy.deepcopy(live), patch)
    return merged if merged is not None else {}


def _merge_maps(target: Json, patch: Json) -> Json | None:
    """None: the patch deletes it."""
    match patch.get(_DIRECTIVE):
        case "replace":
            return {name: value for name, value in patch.items() if name != _DIRECTIVE}
        case "delete":
            return None
        case None | "merge":
            pass
        case other:
            raise MalformedPatch(f"unknown patch type {other!r}")
    if isinstance(kept := patch.get(_RETAIN), list):
        target = {name: value for name, value in target.items() if name in kept}
    for name, value in patch.items():
        if name.startswith(_DROP):
            _drop_items(target, name.removeprefix(_DROP), value)
        elif name in (_DIRECTIVE, _RETAIN) or name.startswith(_ORDER):
            continue
        elif value is None:
            target.pop(name, None)
        else:
            _merge_field(target, name, value)
    for name, order in patch.items():
        if name.startswith(_ORDER):
            _sort_items(target, name.removeprefix(_ORDER), order)
    return target


def _merge_field(target: Json, name: str, value: Any) -> None:
    """Merge one field in."""
    old = target.get(name)
    if isinstance(value, dict):
        merged = _merge_maps(old if isinstance(old, dict) else {}, value)
        if merged is None:
            target.pop(name, None)
        else:
            target[name] = merged
    elif isinstance(value, list) and (key := _find_merge_key(name, value, old)):
        target[name] = _merge_items(old if isinstance(old, list) else [], value, key)
    elif isinstance(value, list) and name in _SET_LISTS and isinstance(old, list):
        target[name] = [*old, *(item for item in value if item not in old)]
    else:
        target[name] = value


def _find_merge_key(name: str, value: Any, old: Any) -> str:
    """The merge key of a list; empty: the list is replaced."""
    items = [*(value or ()), *(old if isinstance(old, list) else ())]
    if not items or not all(isinstance(item, dict) for item in items):
        return ""
    if name == "ports":  # of containers and of Services
        return "containerPort" if any("containerPort" in item for item in items) else "port"
    return _MERGE_KEYS.get(name, "")


def _merge_items(old: list[Json], patches: list[Json], key: str) -> list[Json]:
    if any(item.get(_DIRECTIVE) == "replace" for item in patches):
        return [item for item in patches if item.get(_DIRECTIVE) != "replace"]
    merged = list(old)
    for patch in patches:
        if key not in patch:
            raise MalformedPatch(f"map does not contain declared merge key: {key}")
        place = next((i for i, item in enumerate(merged) if item.get(key) == patch[key]), None)
        made = _merge_maps(merged[place] if place is not None else {}, patch)
        if place is None:
            merged += [made] if made is not None else []
        elif made is None:
            del merged[place]
        else:
            merged[place] = made
    return merged


def _drop_items(target: Json, name: str, dropped: Any) -> None:
    if isinstance(target.get(name), list) and isinstance(dropped, list):
        target[name] = [item for item in target[name] if item not in dropped]


def _sort_items(target: Json, name: str, order: Any) -> None:
    """Order items as in `$setElementOrder`; other items keep their position relative to their predecessor."""
    items = target.get(name)
    if not isinstance(items, list) or not isinstance(order, list):
        return
    key = _find_merge_key(name, items, None)
    wanted = [item.get(key) if isinstance(item, dict) else item for item in order]
    rank = -1
    ranks = []
    for item in items:
        identity = item.get(key) if key else item
        rank = wanted.index(identity) if identity in wanted else rank
        ranks.append(rank)
    target[name] = [item for _, item in sorted(zip(ranks, items, strict=True), key=lambda pair: pair[0])]
