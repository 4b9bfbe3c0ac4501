"""Kept: a node that stays, why, and the numbers that decided; text only when someone asks for it."""

from dataclasses import dataclass

from windlass.engine.scale_down.removal import Removal, Unremovable
from windlass.engine.scale_up.quotas import Exceeded


@dataclass(frozen=True, slots=True)
class Kept:
    """One node that cannot go now. What was found is compared with a limit; the reason says which."""

    node_name: str
    reason: Unremovable
    found: float | None = None
    limit: float | None = None
    removal: Removal | None = None
    """The simulation that failed, where one did."""
    exceeded: tuple[Exceeded, ...] = ()
    """The quotas that stand in the way, where some do."""

    def __str__(self) -> str:
        return f"{self.node_name} {_SAYINGS[self.reason].format(found=self.found, limit=self.limit)}"


_SAYINGS = {
    Unremovable.SCALE_DOWN_DISABLED_ANNOTATION: "is annotated to be kept",
    Unremovable.SCALE_DOWN_UNREADY_DISABLED: "is not ready, and nodes that are not ready are not removed",
    Unremovable.NOT_AUTOSCALED: "belongs to no group",
    Unremovable.NOT_UNNEEDED_LONG_ENOUGH: "has been unneeded for {found:g} s, and must be for more than {limit:g} s",
    Unremovable.NOT_UNREADY_LONG_ENOUGH:
        "is not ready and has been unneeded for {found:g} s, and must be for more than {limit:g} s",
    Unremovable.NODE_GROUP_MIN_SIZE_REACHED: "is one of {found:g} nodes of its group, which keeps at least {limit:g}",
    Unremovable.NODE_GROUP_MAX_DELETION_COUNT_REACHED: "is one too many to remove of its group at once",
    Unremovable.ATOMIC_SCALE_DOWN_FAILED:
        "is one of {found:g} nodes of its group that could go, and only all {limit:g} may go together",
    Unremovable.MINIMAL_RESOURCE_LIMIT_EXCEEDED: "is needed for what the cluster must keep at least",
    Unremovable.CURRENTLY_BEING_DELETED:
        "was marked for deletion {found:g} s ago, which is given {limit:g} s to be carried out",
    Unremovable.NOT_UNDERUTILIZED: "is used to {found:.4g} of what it has, and may be removed up to {limit:g}",
    Unremovable.NOT_UNNEEDED_OTHER_REASON: "was not looked at",
    Unremovable.RECENTLY_UNREMOVABLE: "could not be removed lately, and is looked at again in {limit:g} s",
    Unremovable.NO_PLACE_TO_MOVE_PODS: "has pods that find no place elsewhere",
    Unremovable.BLOCKED_BY_POD: "has a pod that must not be moved",
    Unremovable.UNEXPECTED_ERROR: "does not tell what it has, or is not known well enough",
    Unremovable.NO_NODE_INFO: "does not exist any more",
    Unremovable.BLOCKED_BY_ON_COMPLETION_POD: "waits for {found:g} pods to finish",
    Unremovable.UNREADABLE_NODE: "cannot be read in full, and may be in use",
}  # fmt: skip
"""Continues a sentence that begins with the node's name."""
