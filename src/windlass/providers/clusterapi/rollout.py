"""Rollouts: is a MachineDeployment replacing its Machines?

Each change of its template makes a MachineSet with the next revision. As long as one of an earlier revision still has
Machines, or should have, they are being replaced, and Cluster API takes the old ones first, whatever is marked.
"""

from collections.abc import Iterable

from windlass import selectors
from windlass.kube.models import clusterapi
from windlass.providers.clusterapi import keys


def is_under_way(machine_sets: Iterable[clusterapi.MachineSet]) -> bool:
    """Does any MachineSet of the MachineDeployment but the latest have replicas?"""
    return len(find_active(machine_sets)) > 1


def find_active(machine_sets: Iterable[clusterapi.MachineSet]) -> list[clusterapi.MachineSet]:
    """The latest MachineSet of a MachineDeployment, and those before it that still have replicas."""
    in_order = sorted(machine_sets, key=_revision)
    return [*filter(_has_replicas, in_order[:-1]), *in_order[-1:]]


def _revision(machine_set: clusterapi.MachineSet) -> int:
    return selectors.parse_int64((machine_set.meta.annotations or {}).get(keys.REVISION)) or 0


def _has_replicas(machine_set: clusterapi.MachineSet) -> bool:
    wanted = machine_set.spec.replicas if machine_set.spec else None
    there = machine_set.status.replicas if machine_set.status else None
    return bool(wanted or there)
