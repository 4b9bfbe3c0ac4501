"""Replicas: who wrote them, and so which of two sizes holds.

The cluster autoscaler scales MachineSets of Cluster API alone, through `/scale`, even where Machine API holds. Its
entry in managedFields has no time and sticks, and a scale to zero erases it, so that ownership alone tells nothing.
Hence *marks*: our own server-side apply of `{spec: {replicas}}`, on both objects. To apply the value that is there
makes us one of its owners; whoever writes another value afterwards takes it from us. A side without a mark was written
since both were equal.

Where Machine API holds:

    equal                                 set the marks that are missing
    differ, Cluster API unmarked, and     the autoscaler wrote: mark both as they are, then copy to Machine API
    none but the autoscaler owns it
    differ, both marked                   that copy was cut short: finish it
    differ otherwise                      Machine API holds: copy to Cluster API

Nobody counts as the autoscaler: only a scale through zero leaves nobody, and the admission policy leaves `/scale` of a
mirror to the autoscaler. If both wrote, the autoscaler wins. Machine API is marked first, so that a pass that is cut
short is told from an administrator who wrote.
"""

from dataclasses import dataclass

from windlass.controllers.openshift import apis, names
from windlass.controllers.openshift.authority import Authority
from windlass.controllers.openshift.machineset_sync import facts
from windlass.controllers.openshift.machineset_sync import names as sync_names
from windlass.controllers.openshift.machineset_sync.plan import ApplyReplicas

EQUAL = "equal"
AUTOSCALER_WROTE = "autoscaler wrote"
CUT_SHORT = "copy was cut short"
HOLDER = "authority"
WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Side:
    """Replicas of one MachineSet."""

    replicas: int
    is_marked: bool
    others: frozenset[str] = frozenset()
    """Managers that own them, besides the mark."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What is written, in this order, and why."""

    why: str
    writes: tuple[ApplyReplicas, ...] = ()

    @property
    def shrinks(self) -> bool:
        """Does the holder get smaller by what the autoscaler wrote?"""
        return self.why in (AUTOSCALER_WROTE, CUT_SHORT)


def read(machine_set: facts.Json) -> Side:
    """Replicas that are not given are one, in either API."""
    replicas = facts.spec(machine_set).get("replicas")
    found = facts.owners(machine_set, "spec", "replicas")
    marks = [each for each in found if (each.manager, each.operation) == (sync_names.MANAGER, "Apply")]
    others = frozenset(each.manager for each in found if each not in marks)
    return Side(1 if replicas is None else replicas, bool(marks), others)


def decide(holder: Authority, machine_api: Side, cluster_api: Side, *, settles: bool = False) -> Decision:
    """`settles`: the other API is about to hold, so that both sizes are marked while they are equal."""
    mark_machine_api = ApplyReplicas(apis.MACHINE_API, machine_api.replicas)
    mark_cluster_api = ApplyReplicas(apis.CLUSTER_API, cluster_api.replicas)
    copy_to_machine_api = ApplyReplicas(apis.MACHINE_API, cluster_api.replicas)
    missing = () if machine_api.is_marked else (mark_machine_api,)
    if holder is Authority.CLUSTER_API:
        if machine_api.replicas != cluster_api.replicas:
            return Decision(HOLDER, (copy_to_machine_api,))
        marks = (*missing, *(() if cluster_api.is_marked else (mark_cluster_api,)))
        return Decision(EQUAL, marks if settles else ())
    if holder is not Authority.MACHINE_API:
        return Decision(WAIT)
    if machine_api.replicas == cluster_api.replicas:
        return Decision(EQUAL, (*missing, *(() if cluster_api.is_marked else (mark_cluster_api,))))
    if not cluster_api.is_marked and cluster_api.others <= {names.AUTOSCALER_MANAGER}:
        return Decision(AUTOSCALER_WROTE, (*missing, mark_cluster_api, copy_to_machine_api))
    if cluster_api.is_marked and machine_api.is_marked:
        return Decision(CUT_SHORT, (copy_to_machine_api,))
    copy_to_cluster_api = ApplyReplicas(apis.CLUSTER_API, machine_api.replicas)
    return Decision(HOLDER, (copy_to_cluster_api, mark_machine_api))
