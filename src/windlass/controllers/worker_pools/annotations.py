"""Annotations: the bounds of an autoscaled pool, as Cluster API and autoscalers read them on its MachineDeployment."""

from collections.abc import Mapping

from windlass import errors, selectors
from windlass.controllers.worker_pools.sizes import Limits

MIN_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
MAX_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"

_LARGEST = 2**31 - 1


class Unreadable(errors.WindlassError):
    """An annotation that should be a number is none."""

    def __init__(self, name: str, found: str) -> None:
        super().__init__(f'could not parse the value of the "{name}" annotation: found {found!r}, expected an integer')


def spell(limits: Limits | None) -> dict[str, str]:
    return {} if limits is None else {MIN_SIZE: str(limits.min), MAX_SIZE: str(limits.max)}


def read(annotations: Mapping[str, str]) -> Limits | None:
    """The bounds, if both are there. `Unreadable` if one is no number."""
    if MIN_SIZE not in annotations or MAX_SIZE not in annotations:
        return None
    return Limits(_read(annotations, MIN_SIZE), _read(annotations, MAX_SIZE))


def _read(annotations: Mapping[str, str], name: str) -> int:
    found = annotations[name]
    number = selectors.parse_int64(found)
    if number is not None and -_LARGEST - 1 <= number <= _LARGEST:
        return number
    raise Unreadable(name, found)
