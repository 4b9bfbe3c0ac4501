"""Strategic merge patches: a merge patch in which the items of some lists are merged by a key, or as a set.

Which lists those are is said by the real server's types (`patchStrategy`, `patchMergeKey`), not by what server-side
apply makes of the same lists.
"""

import copy
from typing import Any

from windlass.apiserver.types.model import Json

_KEYS = {
    "conditions": "type", "containers": "name", "initContainers": "name", "ephemeralContainers": "name", "env": "name",
    "volumes": "name", "volumeMounts": "mountPath", "volumeDevices": "devicePath", "imagePullSecrets": "name",
    "hostAliases": "ip", "topologySpreadConstraints": "topologyKey", "resourceClaims": "name",
    "schedulingGates": "name", "podIPs": "ip", "hostIPs": "ip", "resourceClaimStatuses": "name", "addresses": "type",
    "secrets": "name", "ownerReferences": "uid", "drivers": "name",
}  # fmt: skip
"""Lists of objects that are merged, and the key by which."""
_SETS = ("finalizers", "podCIDRs")
"""Lists of scalars that are merged."""
_DIRECTIVE, _RETAIN, _ORDER, _DROP = "$patch", "$retainKeys", "$setElementOrder/", "$deleteFromPrimitiveList/"


class Malformed(ValueError):
    """The patch says something that cannot be carried out."""


def merge(live: Json, patch: Any) -> Json:
    """The live object with a patch merged in."""
    if not isinstance(patch, dict):
        raise Malformed("the patch is no object")
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
            raise Malformed(f"unknown patch type {other!r}")
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
            _set(target, name, value)
    for name, order in patch.items():
        if name.startswith(_ORDER):
            _sort(target, name.removeprefix(_ORDER), order)
    return target


def _set(target: Json, name: str, value: Any) -> None:
    """Merge one field in."""
    old = target.get(name)
    if isinstance(value, dict):
        merged = _merge_maps(old if isinstance(old, dict) else {}, value)
        if merged is None:
            target.pop(name, None)
        else:
            target[name] = merged
    elif isinstance(value, list) and (key := _find_key(name, value, old)):
        target[name] = _merge_items(old if isinstance(old, list) else [], value, key)
    elif isinstance(value, list) and name in _SETS and isinstance(old, list):
        target[name] = [*old, *(item for item in value if item not in old)]
    else:
        target[name] = value


def _find_key(name: str, value: Any, old: Any) -> str:
    """By which key a list's items are merged; empty: the list is replaced."""
    items = [*(value or ()), *(old if isinstance(old, list) else ())]
    if not items or not all(isinstance(item, dict) for item in items):
        return ""
    if name == "ports":  # of containers and of Services
        return "containerPort" if any("containerPort" in item for item in items) else "port"
    return _KEYS.get(name, "")


def _merge_items(old: list[Json], patches: list[Json], key: str) -> list[Json]:
    if any(item.get(_DIRECTIVE) == "replace" for item in patches):
        return [item for item in patches if item.get(_DIRECTIVE) != "replace"]
    merged = list(old)
    for patch in patches:
        if key not in patch:
            raise Malformed(f"map does not contain declared merge key: {key}")
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


def _sort(target: Json, name: str, order: Any) -> None:
    """Bring items into an order; those that it does not name keep their place behind what was before them."""
    items = target.get(name)
    if not isinstance(items, list) or not isinstance(order, list):
        return
    key = _find_key(name, items, None)
    wanted = [item.get(key) if isinstance(item, dict) else item for item in order]
    rank = -1
    ranks = []
    for item in items:
        identity = item.get(key) if key else item
        rank = wanted.index(identity) if identity in wanted else rank
        ranks.append(rank)
    target[name] = [item for _, item in sorted(zip(ranks, items, strict=True), key=lambda pair: pair[0])]
