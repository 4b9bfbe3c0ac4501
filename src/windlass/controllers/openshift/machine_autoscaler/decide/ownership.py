"""Ownership: of several MachineAutoscalers about the same MachineSet, or about it and its mirror, one has it."""

from windlass.controllers.openshift import apis, names
from windlass.controllers.openshift.authority import Pair
from windlass.controllers.openshift.machine_autoscaler import facts
from windlass.controllers.openshift.machine_autoscaler.decide import bounds, validation


def is_ours(seen: facts.Seen, holder: apis.Api) -> bool:
    """Whether the target is ours, or free to be.

    Whoever is written on it has it, as long as there is such a MachineAutoscaler that is, or was, about it: one that
    was lets it go by itself. If nobody is, the oldest has it.
    """
    recorded = find_owner(seen.target, holder)
    if recorded and not _is_gone(recorded, seen):
        return recorded == seen.autoscaler.key
    rivals = [
        other for other in seen.others.values() if not other.is_deleting and other.target.name == seen.target.name
    ]
    return all(_age(seen.autoscaler) < _age(other) for other in rivals if _is_usable(other, seen))


def find_owner(pair: Pair, holder: apis.Api) -> str:
    """Who is written on a MachineSet that holds; on its mirror, if nobody is; empty if nobody is there either."""
    found = (read(pair, api).get(names.OWNER_ANNOTATION) for api in (holder, holder.mirror))
    return next((owner for owner in found if owner), "")


def read(pair: Pair, api: apis.Api) -> dict[str, str]:
    """The annotations of a MachineSet; none if it is not there."""
    return ((pair.get(api) or {}).get("metadata") or {}).get("annotations") or {}


def _is_gone(owner: str, seen: facts.Seen) -> bool:
    """Whether an owner cannot be one: nobody of that name, where we would know of it, has to do with the MachineSet.

    An owner somewhere else, or one that cannot be read, is not ours to judge.
    """
    if owner == seen.autoscaler.key:
        return False
    try:
        namespace, _ = bounds.read_owner({names.OWNER_ANNOTATION: owner})
    except bounds.Unreadable:
        return False
    return namespace == seen.autoscaler.namespace and owner not in seen.others


def _is_usable(other: facts.Autoscaler, seen: facts.Seen) -> bool:
    """Whether it could have the target at all."""
    return not validation.check(other.min, other.max) and not validation.check_reference(other.target, seen.supported)


def _age(autoscaler: facts.Autoscaler) -> tuple[str, str]:
    return autoscaler.created, autoscaler.name
