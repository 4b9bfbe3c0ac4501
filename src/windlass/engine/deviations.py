"""Deviations: what windlass decides otherwise than Cluster Autoscaler, on purpose.

One field is one difference. `WINDLASS`, the default, has them all; `NONE` is the peer's behaviour, which conformance
runs use. docs/deviations.md tells for each what the peer does, why windlass does not, and what it costs.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deviations:
    """Every difference, switched on. Each may be switched off alone, by the flag of its name."""

    joint_scale_up: bool = True
    """One loop serves pods that need different groups. Off: one group, with those similar to it, wins each loop."""
    quiet_window_s: float = 1.0
    """Scale up once no pending pod has come for so long. 0: wait until the oldest is 2 s old (30 s if it wants a GPU),
    which delays a pod that is alone and splits a wave that takes longer."""
    quiet_window_max_s: float = 10.0
    """Scale up at the latest when the oldest pending pod is so old, because pods may keep coming. Only with a quiet
    window."""
    group_pods_by_likeness: bool = True
    """Pending pods without a controller are grouped by likeness too, and a controller may have any number of groups.
    Off: pods without a controller are judged one by one, and so are those beyond ten groups of one controller."""
    tight_packing: bool = True
    """An estimate looks for room on the nodes that it opens from the last match on. Off: from a random node, for every
    pod."""
    enforce_min_respects_max_nodes_total: bool = True
    """Growing groups to their minimum stops at --max-nodes-total. Off: it goes beyond."""
    count_external_resizes_as_upcoming: bool = True
    """Nodes that are missing because someone else raised a group, or because some got lost, are awaited like those
    asked for here. Off: pending pods trigger a scale-up of their own beside them."""
    only_ready_nodes_fulfil_requests: bool = True
    """A scale-up whose nodes stay unregistered or never become ready has failed, and its group backs off. Off: such
    nodes count as having come, and the group is scaled up again at once."""
    revert_only_missing_nodes: bool = True
    """A scale-up that timed out is taken back as far as its nodes do not exist. Off: all of it or, where that would
    touch instances, nothing."""
    isolate_size_fixes: bool = True
    """A wrong size is fixed as far as the provider allows, and the loop goes on. Off: a fix ends the loop for all
    groups, a refused one with an error."""
    recheck_unremovable_nodes: bool = True
    """A node that could not be removed is looked at again as soon as anything about it changed. Off: not for
    --unremovable-node-recheck-timeout, even if what stood in the way has left."""


WINDLASS = Deviations()

NONE = Deviations(
    joint_scale_up=False,
    quiet_window_s=0.0,
    group_pods_by_likeness=False,
    tight_packing=False,
    enforce_min_respects_max_nodes_total=False,
    count_external_resizes_as_upcoming=False,
    only_ready_nodes_fulfil_requests=False,
    revert_only_missing_nodes=False,
    isolate_size_fixes=False,
    recheck_unremovable_nodes=False,
)
"""Cluster Autoscaler's behaviour."""
