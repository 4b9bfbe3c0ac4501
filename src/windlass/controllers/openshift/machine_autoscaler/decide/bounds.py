"""Bounds and the owner of a MachineSet, as annotations. Which keys the bounds have depends on the API."""

from collections.abc import Mapping

from windlass import errors, selectors
from windlass.controllers.openshift import apis, names
from windlass.controllers.worker_pools.sizes import Limits

Annotations = Mapping[str, str]


class Unreadable(errors.WindlassError):
    """Bounds, or an owner, that are missing or cannot be read."""


def spell(limits: Limits, owner: str, api: apis.Api) -> dict[str, str]:
    return {names.OWNER_ANNOTATION: owner, api.min_size: str(limits.min), api.max_size: str(limits.max)}


def read(annotations: Annotations, api: apis.Api) -> Limits:
    """`Unreadable` unless both are there, and numbers."""
    if api.min_size not in annotations or api.max_size not in annotations:
        raise Unreadable("missing min or max annotation")
    return Limits(_read(annotations[api.min_size], "min"), _read(annotations[api.max_size], "max"))


def _read(found: str, which: str) -> int:
    size = selectors.parse_int64(found)
    if size is None:
        raise Unreadable(f"bad {which} annotation: {found}")
    return size


def differ(annotations: Annotations, limits: Limits, api: apis.Api) -> bool:
    try:
        return read(annotations, api) != limits
    except Unreadable:
        return True


def read_owner(annotations: Annotations) -> tuple[str, str]:
    """(namespace, name) of the MachineAutoscaler whose it is. `Unreadable` if that is missing, or none."""
    if names.OWNER_ANNOTATION not in annotations:
        raise Unreadable("missing owner annotation")
    namespace, _, name = annotations[names.OWNER_ANNOTATION].partition("/")
    if not namespace or not name or "/" in name:
        raise Unreadable("incorrectly formatted owner annotation")
    return namespace, name


def find_ours(annotations: Annotations) -> dict[str, None]:
    """What is taken off a MachineSet that is let go: owner and bounds, under either prefix."""
    keys = (names.OWNER_ANNOTATION, *(key for api in apis.BOTH for key in (api.min_size, api.max_size)))
    return {key: None for key in keys if key in annotations}
