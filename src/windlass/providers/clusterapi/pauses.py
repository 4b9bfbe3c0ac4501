"""Pauses: objects that Cluster API leaves alone for now, and how they say so.

    annotation cluster.x-k8s.io/paused     on the object itself, whatever its value
    condition Paused                       on every object of a Cluster with spec.paused, from Cluster API 1.9 on; in
                                           status.conditions (v1beta2) or in status.v1beta2.conditions (v1beta1)
    status.authoritativeAPI                on OpenShift: another API holds the object, or is about to

Whoever resizes a paused group, or removes its nodes, does so in vain: pods are evicted and no machine comes or goes.
"""

from windlass.kube.models import clusterapi, meta
from windlass.providers.clusterapi import keys

_CONDITION = "Paused"


def find(found: meta.Object) -> str:
    """Why Cluster API leaves the object alone; empty if it does not."""
    if keys.PAUSED in (found.meta.annotations or {}):
        return f"it has the annotation {keys.PAUSED}"
    condition = find_condition(getattr(found, "status", None))
    return "" if condition is None else f"condition {_CONDITION}: {condition.message or condition.reason or 'True'}"


def find_condition(
    status: clusterapi.MachineGroupStatus | clusterapi.MachineStatus | None,
) -> clusterapi.Condition | None:
    """The condition that says that the object is paused; None if there is none, or it says otherwise."""
    if status is None:
        return None
    of_v1beta1 = (status.v1beta2.conditions if status.v1beta2 else None) or ()
    conditions = (*(status.conditions or ()), *of_v1beta1)
    return next((one for one in conditions if one.type == _CONDITION and one.status == "True"), None)
