"""Deviations: where windlass decides differently from Cluster Autoscaler, on purpose.

One field is one difference. `ALL_DEVIATIONS`, the default, enables all of them; `NO_DEVIATIONS` is Cluster Autoscaler's
behavior, which conformance runs use. docs/deviations.md describes for each what Cluster Autoscaler does, why windlass
does not, and what it costs.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deviations:
    """All deviations, enabled. Each has a flag of its name that disables it."""

    joint_scale_up: bool = True
    """One loop scales up different node groups for pods that need different groups. Off: one group, with those similar
    to it, is chosen in each loop."""
    quiet_window_s: float = 0.2
    """Start a scale-up once no pending pod has arrived for this long. 0: wait until the oldest pod is 2 s old (30 s if
    it requests a GPU), which delays a single pod and splits a longer burst."""
    quiet_window_max_s: float = 10.0
    """Maximum age of the oldest pending pod before a scale-up starts, even if pods keep arriving. Only with
    --quiet-window."""
    foresee_alike_pods: bool = True
    """Unprocessed pods count as unschedulable if an equivalent pod is. Off: each pod waits for the scheduler, which
    takes seconds in a large burst."""
    group_pods_by_likeness: bool = True
    """Pending pods without a controller form equivalence groups too, and a controller may have any number of groups.
    Off: pods without a controller are evaluated one by one, and so are those beyond ten groups of one controller."""
    tight_packing: bool = True
    """Binpacking searches opened nodes from the last match on. Off: from a random node for every pod."""
    ignore_csi_zone_labels: bool = True
    """Zone labels of CSI drivers are ignored when comparing node groups for similarity. Off: such labels prevent
    --balance-similar-node-groups from balancing across zones, unless --balancing-ignore-label names them."""
    readiness_taints: bool = True
    """Taints with the prefix readiness.k8s.io/ are startup taints. Off: only those of --startup-taint and
    --startup-taint-prefix are, and those with Cluster Autoscaler's own prefixes."""
    enable_csi_node_aware_scheduling: bool = True
    """Upcoming nodes have the volume limits of the CSINode of a similar node, or of the group's annotation csi-driver,
    and a node is unready until its CSINode lists the drivers of this annotation. Off: upcoming nodes attach any number
    of volumes, so that too few nodes are added for pods with volumes, and more in each later loop."""
    enforce_min_respects_max_nodes_total: bool = True
    """--enforce-node-group-min-size stops at --max-nodes-total, and resizes of the same loop count against it and
    against limits on cores, memory and GPUs. Off: the limit is exceeded."""
    count_cordoned_nodes_in_max_nodes_total: bool = True
    """Cordoned nodes count toward --max-nodes-total when it is compared with the ready nodes, and the limit is reported
    as the reason. Off: they count in binpacking only, and affected pods get no reason."""
    count_pods_of_all_schedulers: bool = True
    """Running pods use resources of their node whichever scheduler bound them. Off: with --allowed-scheduler-names pods
    of other schedulers are ignored, so that full nodes seem to have room and used nodes seem empty."""
    tolerate_unknown_capacity: bool = True
    """A node counts with its known capacity: a node with the GPU label but without a driver, in a group without a
    template, counts without GPUs, and upcoming nodes of a group without a template do not count. Off: either fails
    every scale-up, and the first blocks every scale-down."""
    count_external_resizes_as_upcoming: bool = True
    """Nodes that are missing because another client raised a group, or because instances were lost, are upcoming nodes.
    Off: pending pods trigger another scale-up for them."""
    count_leaving_nodes_as_gone: bool = True
    """A node whose instance is being deleted no longer counts toward its group's target size. Off: it counts until it
    is gone, so that a node requested meanwhile seems to have registered and is requested again."""
    recognise_newcomers: bool = True
    """An unready node that registers while nodes are upcoming, and whose group is unknown, is matched to an upcoming
    node. Off: it counts in addition, and pods that must spread over it may get another node."""
    only_ready_nodes_fulfil_requests: bool = True
    """A scale-up whose nodes stay unregistered or never become ready has failed, and its group backs off. Off: such
    nodes fulfil the request, and the group is scaled up again at once."""
    revert_only_missing_nodes: bool = True
    """A scale-up that timed out is reverted by the nodes that do not exist. Off: by all of its nodes or, where that
    would delete instances, not at all."""
    isolate_size_fixes: bool = True
    """A wrong target size is fixed as far as the provider allows, and the loop continues. Off: a fix ends the loop for
    all groups, and a rejected one with an error."""
    leave_rollouts_alone: bool = True
    """During a machine rollout no node of the group is deleted and its size is not lowered. Off: unregistered and
    failed instances are deleted, and running machines are removed in their place."""
    never_shrink_blindly: bool = True
    """A group whose provider cannot delete a chosen instance is only scaled down to zero as a whole. Off: it shrinks by
    one, and the infrastructure deletes an arbitrary instance instead of the drained one."""
    respect_topology_replicas: bool = True
    """A group whose spec.replicas is managed by a Cluster topology (ClusterClass) is not scaled, and none of its
    machines is deleted. Off: it is scaled, and the topology controller reverts every size."""
    respect_replicas_managed_by: bool = True
    """A MachinePool with the annotation cluster.x-k8s.io/replicas-managed-by is not scaled, and none of its machines is
    deleted. Off: it is scaled, and its infrastructure provider reverts every size."""
    recheck_unremovable_nodes: bool = True
    """An unremovable node is evaluated again as soon as anything about it changes. Off: only after
    --unremovable-node-recheck-timeout, even if the obstacle is gone."""
    try_all_candidates: bool = True
    """Every scale-down candidate is simulated in every loop. Off: only as many as can be removed within the unneeded
    time, estimated from the loop interval."""
    respect_do_not_disrupt: bool = True
    """A pod annotated karpenter.sh/do-not-disrupt=true blocks the removal of its node. Off: the annotation is
    ignored."""
    respect_machine_drain_rules: bool = True
    """MachineDrainRules of Cluster API, and its pod label cluster.x-k8s.io/drain, are respected: a pod with Skip is not
    evicted and does not block its node, a pod with WaitCompleted blocks it until the pod has finished, and pods of a
    lower order terminate before those of a higher order are evicted. Off: only Cluster API respects both, after
    windlass has evicted all pods."""
    recheck_places_before_draining: bool = True
    """Before the first eviction from a node, all its pods must still fit elsewhere and none may block the drain. Off:
    the pods must only still be evictable."""
    move_drained_pods: bool = True
    """A pod of a draining node counts on the node where the scale-down simulation placed it, and no longer on its own;
    a node that only such pods are expected on is empty. Off: it counts as pending wherever it fits and on its own node
    as well, so that its own anti-affinity or topology spread can trigger an unneeded scale-up."""
    hold_room_for_evicted_pods: bool = True
    """Evicted pods that have not been recreated keep their place elsewhere while they terminate. Off: nodes are chosen
    for scale-down as if they never came back."""
    count_stuck_pods_as_gone: bool = True
    """Pods that outlive their grace period by 30 s do not block the deletion of their node. Off: the drain fails, and
    the node is deleted later, as such pods do not block an empty node."""
    foresee_refused_evictions: bool = True
    """A pod that several PodDisruptionBudgets match, or one whose status is older than its spec, blocks its node,
    because the eviction API rejects its eviction. Off: its node is tainted and cordoned, rolled back when the eviction
    times out, and chosen again."""
    respect_unhealthy_pod_eviction_policy: bool = True
    """A PodDisruptionBudget does not block pods that the eviction API would evict anyway: pods that have not started,
    are terminating, or are not Ready where unhealthyPodEvictionPolicy allows it. Off: such pods block their nodes while
    the budget allows no disruption."""
    keep_cordons: bool = True
    """A node that was cordoned before its removal started stays cordoned if the removal fails. Off: it is
    uncordoned."""
    pause_after_failed_drains: bool = True
    """Scale-down pauses for --scale-down-delay-after-failure after any failed removal, in the cluster or the group.
    Off: in the cluster only if nodes could not be tainted, in the group only if the provider rejected the deletion."""
    clear_abandoned_marks: bool = True
    """ToBeDeleted taints older than five minutes that belong to no drain in progress are removed. Off: only in the
    first loop after a start without memory."""
    atomic_across_groups: bool = True
    """An atomic ProvisioningRequest that no single group can satisfy is satisfied by several groups, all or nothing;
    scale-ups are reverted if one is rejected. Off: one group, with those similar to it, and earlier scale-ups stay
    after a rejection."""
    book_only_what_is_left: bool = True
    """Capacity is booked for pods of a ProvisioningRequest that do not exist yet. Off: for all of its pods, in addition
    to existing ones, until all exist."""
    leave_others_requests_alone: bool = True
    """ProvisioningRequests of other classes and processor instances are never changed. Off: they are deleted a week
    after their last condition."""
    fail_empty_requests: bool = True
    """A ProvisioningRequest without pods fails. Off: it is accepted in every loop until it expires."""
    say_why_not_found: bool = True
    """The condition of a ProvisioningRequest without capacity states why groups or nodes reject its pods. Off: it
    states only that capacity is not available."""
    keep_places_found: bool = True
    """Capacity stays booked on the nodes where it was found. Off: it is searched again in every loop, and may not be
    found."""
    pod_template_grace_s: float = 5.0
    """Age up to which a ProvisioningRequest with a missing PodTemplate is not failed, because objects created together
    are observed in any order. 0: it fails at once."""


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
    respect_replicas_managed_by=False,
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
"""Cluster Autoscaler's behavior."""
