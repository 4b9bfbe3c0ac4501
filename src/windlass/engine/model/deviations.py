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
    quiet_window_s: float = 0.2
    """Scale up once no pending pod has come for so long. 0: wait until the oldest is 2 s old (30 s if it wants a GPU),
    which delays a pod that is alone and splits a wave that takes longer."""
    quiet_window_max_s: float = 10.0
    """Scale up at the latest when the oldest pending pod is so old, because pods may keep coming. Only with a quiet
    window."""
    foresee_alike_pods: bool = True
    """Pods that the scheduler has not tried yet count as unschedulable if one that is like them is. Off: each waits for
    the scheduler's word, which takes seconds where many come at once."""
    group_pods_by_likeness: bool = True
    """Pending pods without a controller are grouped by likeness too, and a controller may have any number of groups.
    Off: pods without a controller are judged one by one, and so are those beyond ten groups of one controller."""
    tight_packing: bool = True
    """An estimate looks for room on the nodes that it opens from the last match on. Off: from a random node, for every
    pod."""
    ignore_csi_zone_labels: bool = True
    """Groups that differ in labels by which CSI drivers name the zone are similar. Off: such labels keep
    --balance-similar-node-groups from sharing new nodes between zones, unless --balancing-ignore-label names them."""
    readiness_taints: bool = True
    """Taints whose keys begin with readiness.k8s.io/ are startup taints. Off: only those of --startup-taint and
    --startup-taint-prefix are, and those of Cluster Autoscaler's own prefixes."""
    enable_csi_node_aware_scheduling: bool = True
    """Nodes to come attach as many volumes as the CSINode of a node like them says, or the annotation csi-driver of
    their group, and a node is unready before its CSINode lists the drivers that this annotation names. Off: nodes to
    come attach any number, so that pods with volumes get too few nodes, and more of them with each boot."""
    enforce_min_respects_max_nodes_total: bool = True
    """Growing groups to their minimum stops at --max-nodes-total, and what the same loop ordered counts against it and
    against limits on cores, memory and GPUs. Off: it goes beyond."""
    count_cordoned_nodes_in_max_nodes_total: bool = True
    """Cordoned nodes count when --max-nodes-total is compared with the ready nodes, and the limit is named as the
    reason. Off: they count only where nodes are estimated, and pods that could have had one are told nothing."""
    count_pods_of_all_schedulers: bool = True
    """Pods that run take up room on their node, whichever scheduler placed them. Off: with --allowed-scheduler-names
    the pods of other schedulers are overlooked, so that full nodes seem to have room, and used ones to be empty."""
    tolerate_unknown_capacity: bool = True
    """A node counts with what is known of it: one with the GPU label whose driver is not up and whose group has no
    template counts without GPUs, and nodes to come of a group without a template do not count. Off: either ends every
    scale-up with an error, and the first keeps every node from being removed."""
    count_external_resizes_as_upcoming: bool = True
    """Nodes that are missing because someone else raised a group, or because some got lost, are awaited like those
    asked for here. Off: pending pods trigger a scale-up of their own beside them."""
    count_leaving_nodes_as_gone: bool = True
    """A node whose instance is on its way out is none of its group's any more: the target size does not count it. Off:
    it counts until it is gone, so that a node asked for meanwhile seems to have come, and is asked for again."""
    recognise_newcomers: bool = True
    """A node that registered while some are awaited, cannot be used yet and whose group is not known is taken for one
    of them. Off: it counts beside them, and pods that must be spread over it may get another node."""
    only_ready_nodes_fulfil_requests: bool = True
    """A scale-up whose nodes stay unregistered or never become ready has failed, and its group backs off. Off: such
    nodes count as having come, and the group is scaled up again at once."""
    revert_only_missing_nodes: bool = True
    """A scale-up that timed out is taken back as far as its nodes do not exist. Off: all of it or, where that would
    touch instances, nothing."""
    isolate_size_fixes: bool = True
    """A wrong size is fixed as far as the provider allows, and the loop goes on. Off: a fix ends the loop for all
    groups, a refused one with an error."""
    leave_rollouts_alone: bool = True
    """While the machines of a group are being replaced nothing is deleted of it and its size is not lowered. Off: what
    did not register or could not be created is, and running machines go in its place."""
    never_shrink_blindly: bool = True
    """A group of which it cannot be said which instance goes shrinks only as a whole. Off: one by one, and whichever
    instance the infrastructure picks goes, not the one that was emptied."""
    respect_topology_replicas: bool = True
    """A group whose spec.replicas the Cluster topology applies (ClusterClass) is neither raised nor lowered, and none
    of its machines is deleted. Off: it is scaled, and the topology controller reverts every size."""
    recheck_unremovable_nodes: bool = True
    """A node that could not be removed is looked at again as soon as anything about it changed. Off: not for
    --unremovable-node-recheck-timeout, even if what stood in the way has left."""
    try_all_candidates: bool = True
    """Every node that might be unneeded is tried in every loop. Off: only so many that those found can be removed
    within the unneeded time, judging by how fast loops follow each other."""
    respect_do_not_disrupt: bool = True
    """A pod annotated karpenter.sh/do-not-disrupt=true keeps its node. Off: the annotation says nothing."""
    respect_machine_drain_rules: bool = True
    """Cluster API's MachineDrainRules, and its label cluster.x-k8s.io/drain of pods, hold here as well: a pod to be
    skipped is not evicted and does not keep its node, one to be waited for keeps it until it has finished, and pods of
    a lower order are gone before those of a higher one are evicted. Off: only Cluster API heeds both, after all pods
    were evicted here."""
    recheck_places_before_draining: bool = True
    """Before the first pod of a node is evicted, all must still have a place elsewhere, and none may ask to be let
    finish. Off: they only must still be allowed to leave."""
    move_drained_pods: bool = True
    """A pod of a node that is being drained counts where it was found a place when the node was chosen, and no more
    where it is; a node on which nothing but such pods is expected is empty. Off: it counts as running wherever it fits,
    and where it is as well: its own anti-affinity or topology spread may order a node that is not needed."""
    hold_room_for_evicted_pods: bool = True
    """Pods that were evicted and have not been created anew keep room elsewhere while they are on their way out. Off:
    nodes are chosen as if they never came back."""
    count_stuck_pods_as_gone: bool = True
    """Pods that outlive their grace period and 30 s do not keep their node from being deleted. Off: the drain fails,
    and the node is deleted later, since they do not keep an empty node."""
    foresee_refused_evictions: bool = True
    """A pod that more than one disruption budget covers keeps its node, because the API never evicts it. Off: its node
    is tainted and cordoned, given back when the eviction was refused for too long, and chosen again."""
    respect_unhealthy_pod_eviction_policy: bool = True
    """A disruption budget keeps no pod that the API would evict in spite of it: one that has not started, that is
    terminating, or that is not Ready where the budget's unhealthyPodEvictionPolicy lets it go. Off: all of them keep
    their nodes while the budget allows no disruption."""
    keep_cordons: bool = True
    """A node that was cordoned before its removal began stays so if that fails. Off: it is uncordoned."""
    pause_after_failed_drains: bool = True
    """Scale-down pauses for --scale-down-delay-after-failure after any failed removal, in the cluster or the group.
    Off: in the cluster only if nodes could not be marked, in the group only if the provider refused."""
    clear_abandoned_marks: bool = True
    """A node that was marked for deletion more than five minutes ago, and of which nobody knows, is given back. Off:
    only in the first loop after a start without memory."""
    atomic_across_groups: bool = True
    """An atomic ProvisioningRequest that no single group can serve is served by several at once, all or nothing; what
    was raised is taken back if one of them refuses. Off: one group, with those similar to it, and what was raised
    before a refusal stays."""
    book_only_what_is_left: bool = True
    """Room is booked for those of a request's pods that are not there yet. Off: for all of them beside those that are,
    until all are."""
    leave_others_requests_alone: bool = True
    """ProvisioningRequests of classes and instances that are handled elsewhere are never touched. Off: they are deleted
    a week after their last answer."""
    fail_empty_requests: bool = True
    """A ProvisioningRequest without pods has failed. Off: it is accepted in every loop until it expires."""
    say_why_not_found: bool = True
    """A ProvisioningRequest that finds no capacity is told what groups or nodes have against its pods. Off: it is told
    that there is none."""
    keep_places_found: bool = True
    """Room is booked where it was found. Off: it is searched for anew, and may be found no more among others."""
    pod_template_grace_s: float = 5.0
    """How old a ProvisioningRequest must be to fail because a pod template is missing: objects that are created
    together are seen in any order. 0: it fails at once."""


ALL_DEVIATIONS = Deviations()

NO_DEVIATIONS = Deviations(
    joint_scale_up=False,
    quiet_window_s=0.0,
    foresee_alike_pods=False,
    group_pods_by_likeness=False,
    tight_packing=False,
    ignore_csi_zone_labels=False,
    readiness_taints=False,
    enable_csi_node_aware_scheduling=False,
    enforce_min_respects_max_nodes_total=False,
    count_cordoned_nodes_in_max_nodes_total=False,
    count_pods_of_all_schedulers=False,
    tolerate_unknown_capacity=False,
    count_external_resizes_as_upcoming=False,
    count_leaving_nodes_as_gone=False,
    recognise_newcomers=False,
    only_ready_nodes_fulfil_requests=False,
    revert_only_missing_nodes=False,
    isolate_size_fixes=False,
    leave_rollouts_alone=False,
    never_shrink_blindly=False,
    respect_topology_replicas=False,
    recheck_unremovable_nodes=False,
    try_all_candidates=False,
    respect_do_not_disrupt=False,
    respect_machine_drain_rules=False,
    recheck_places_before_draining=False,
    move_drained_pods=False,
    hold_room_for_evicted_pods=False,
    count_stuck_pods_as_gone=False,
    foresee_refused_evictions=False,
    respect_unhealthy_pod_eviction_policy=False,
    keep_cordons=False,
    pause_after_failed_drains=False,
    clear_abandoned_marks=False,
    atomic_across_groups=False,
    book_only_what_is_left=False,
    leave_others_requests_alone=False,
    fail_empty_requests=False,
    say_why_not_found=False,
    keep_places_found=False,
    pod_template_grace_s=0.0,
)
"""Cluster Autoscaler's behaviour."""
