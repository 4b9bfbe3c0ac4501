"""Annotations: most are the same in both APIs; bounds, marks and capacities are spelled otherwise.

`machine.openshift.io/…` bounds on a MachineSet of Cluster API are copies for people; its own are those that count.
"""

from collections.abc import Mapping

from windlass.controllers.openshift import apis, capacity, names

CLUSTER_API = "cluster.x-k8s.io/"
INSTANCE_STATE = "machine.openshift.io/instance-state"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""What someone applied to the one object says nothing of the other."""

_ALIKE = (
    (apis.MACHINE_API.min_size, apis.CLUSTER_API.min_size),
    (apis.MACHINE_API.max_size, apis.CLUSTER_API.max_size),
    (apis.MACHINE_API.delete_machine, apis.CLUSTER_API.delete_machine),
)
_TO_CLUSTER_API = dict(_ALIKE)
_TO_MACHINE_API = {theirs: ours for ours, theirs in _ALIKE}
_BOUNDS = (apis.MACHINE_API.min_size, apis.MACHINE_API.max_size)

Annotations = Mapping[str, str]


def to_cluster_api(annotations: Annotations) -> dict[str, str]:
    """What is unreadable of capacities is left untranslated: `list_unreadable` names it.

    Whether Cluster API's is paused is for whoever knows who holds.
    """
    found = {}
    for key, value in annotations.items():
        if key in (INSTANCE_STATE, LAST_APPLIED, names.PAUSED_ANNOTATION):
            continue
        if key in _BOUNDS:
            found[key] = value
        found[spell(key, apis.CLUSTER_API)] = value
    return found | _translate(annotations)


def to_machine_api(annotations: Annotations) -> dict[str, str]:
    found = {}
    for key, value in annotations.items():
        if key in _TO_MACHINE_API:
            found[_TO_MACHINE_API[key]] = value
        elif CLUSTER_API not in key and key not in (*_BOUNDS, LAST_APPLIED):
            found[key] = value
    return found


def spell(key: str, api: apis.Api) -> str:
    """An annotation of either API as one of them spells it."""
    spelled = _TO_CLUSTER_API if api is apis.CLUSTER_API else _TO_MACHINE_API
    return spelled.get(key, key)


def stays(key: str, api: apis.Api) -> bool:
    """Does an annotation concern one API alone, so that the other says nothing about it?"""
    if key == LAST_APPLIED:
        return True
    if api is apis.CLUSTER_API:
        return CLUSTER_API in key and key not in _TO_MACHINE_API and key != names.PAUSED_ANNOTATION
    return key == INSTANCE_STATE


def list_unreadable(annotations: Annotations) -> list[str]:
    """Complaints about capacities that cannot be translated."""
    return [complaint for key in capacity.OLD if (complaint := _complain(annotations, key))]


def _translate(annotations: Annotations) -> dict[str, str]:
    readable = {key: value for key, value in annotations.items() if not _complain(annotations, key)}
    return capacity.translate(readable)


def _complain(annotations: Annotations, key: str) -> str:
    """What is wrong with one of OpenShift's own keys; nothing is if nobody needs it."""
    if key not in capacity.OLD or key not in annotations:
        return ""
    others = {name: value for name, value in annotations.items() if name not in capacity.OLD}
    try:
        capacity.translate({**others, key: annotations[key]})
    except capacity.Unreadable as error:
        return str(error)
    return ""
