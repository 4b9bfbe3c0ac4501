"""What Cluster Autoscaler was recorded to show: metrics, the status, and an example of each event."""

from pathlib import Path

OUTSIDE = Path(__file__).parents[2].parent / "shared" / "spec" / "outside"
"""The whole recording, where it is at hand."""

METRICS = """
binpacking_heterogeneity histogram cpu_count,instance_type,namespace_count
cluster_cpu_current_cores gauge
cluster_memory_current_bytes gauge
cluster_safe_to_autoscale gauge
cpu_limits_cores gauge direction
errors_total counter type
evicted_pods_total counter eviction_result
failed_node_creations_total counter reason
failed_scale_ups_total counter dra_drivers,gpu_name,gpu_resource_name,reason
function_duration_quantile_seconds summary function
function_duration_seconds histogram function
inconsistent_instances_migs_count gauge
last_activity gauge activity
max_node_skip_eval_duration_seconds gauge
max_nodes_count gauge
memory_limits_bytes gauge direction
node_group_backoff_status gauge node_group,reason
node_group_healthiness gauge node_group
node_group_max_count gauge node_group
node_group_min_count gauge node_group
node_group_target_count gauge node_group
node_groups_count gauge node_group_type
node_taints_count gauge type
nodes_count gauge state
old_unregistered_nodes_removed_count counter
overflowing_controllers_count gauge
pending_node_deletions gauge
scale_down_in_cooldown gauge
scaled_down_nodes_total counter dra_drivers,gpu_name,gpu_resource_name,reason
scaled_up_nodes_total counter dra_drivers,gpu_name,gpu_resource_name
skipped_pods_count gauge requestor
skipped_scale_events_count counter direction,reason
unneeded_nodes_count gauge
unremovable_nodes_count gauge reason
unschedulable_pods_count gauge type
"""


def families() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Type and labels by name."""
    found = {}
    for line in METRICS.split("\n"):
        name, _, rest = line.partition(" ")
        if name:
            kind, _, labels = rest.partition(" ")
            found[f"cluster_autoscaler_{name}"] = (kind, tuple(labels.split(",")) if labels else ())
    return found


STATUS = """\
autoscalerStatus: Running
clusterWide:
  health:
    lastProbeTime: "2026-11-15T08:23:16Z"
    lastTransitionTime: "2026-11-15T08:20:50Z"
    nodeCounts:
      longUnregistered: 0
      registered:
        notStarted: 0
        ready: 3
        suspended: 0
        total: 3
        unready:
          resourceUnready: 0
          total: 0
      unregistered: 0
    status: Healthy
  scaleDown:
    lastProbeTime: "2026-11-15T08:23:16Z"
    lastTransitionTime: "2026-11-15T08:22:33Z"
    status: NoCandidates
  scaleUp:
    lastProbeTime: "2026-11-15T08:23:16Z"
    lastTransitionTime: "2026-11-15T08:21:00Z"
    status: NoActivity
nodeGroups:
- health:
    cloudProviderTarget: 2
    lastProbeTime: "2026-11-15T08:23:16Z"
    lastTransitionTime: "2026-11-15T08:20:50Z"
    maxSize: 10
    minSize: 1
    nodeCounts:
      longUnregistered: 0
      registered:
        notStarted: 0
        ready: 2
        suspended: 0
        total: 2
        unready:
          resourceUnready: 0
          total: 0
      unregistered: 0
    status: Healthy
  name: MachineDeployment/default/md-a
  scaleDown:
    lastProbeTime: "2026-11-15T08:23:16Z"
    lastTransitionTime: "2026-11-15T08:22:33Z"
    status: NoCandidates
  scaleUp:
    backoffInfo: {}
    lastProbeTime: "2026-11-15T08:23:16Z"
    lastTransitionTime: "2026-11-15T08:21:00Z"
    status: NoActivity
time: 2026-11-15 08:23:16.296504601 +0000 UTC
"""

MD_A, A = "MachineDeployment/default/md-a", "MachineDeployment/default/a"
FROZEN = (
    "machinedeployments.cluster.x-k8s.io \"a\" is forbidden: ValidatingAdmissionPolicy 'no-scale' with binding "
    "'no-scale' denied request: replicas are frozen"
)
STILL_THERE = "node group a: attempt to delete existing nodes currentReplicas:4 delta:-3 existingNodes: 2"

_STATUS = ("ConfigMap", "kube-system", "cluster-autoscaler-status")

EVENTS = (
    ("Normal", "ScaleDown", "Node", "", "md-a-ssh9m-7gdzd", "marked the node as toBeDeleted/unschedulable"),
    ("Normal", "ScaleDown", "Node", "", "md-a-ssh9m-7gdzd", "nodes removed by cluster autoscaler"),
    ("Normal", "NotTriggerScaleUp", "Pod", "default", "picky",
     "pod didn't trigger scale-up: 1 node(s) didn't match Pod's node affinity/selector"),
    ("Normal", "NotTriggerScaleUp", "Pod", "default", "toobig", "pod didn't trigger scale-up: 1 Insufficient cpu"),
    ("Normal", "TriggeredScaleUp", "Pod", "default", "work-76bb9d6677-6688p",
     f"pod triggered scale-up: [{{{MD_A} 1->6 (max: 10)}}]"),
    ("Normal", "ScaleDown", "Pod", "default", "work-76bb9d6677-jttpb", "deleting pod for node scale down"),
    ("Normal", "ScaledUpGroup", *_STATUS, f"Scale-up: setting group {MD_A} size to 6 instead of 1 (max: 10)"),
    ("Normal", "ScaledUpGroup", *_STATUS, f"Scale-up: group {MD_A} size set to 6 instead of 1 (max: 10)"),
    ("Normal", "ScaleDownEmpty", *_STATUS, 'Scale-down: removing empty node "md-a-ssh9m-mrjw9"'),
    ("Normal", "ScaleDownEmpty", *_STATUS, "Scale-down: empty node md-a-ssh9m-mrjw9 removed"),
    ("Normal", "ScaleDown", *_STATUS,
     "Scale-down: removing node md-a-ssh9m-djwbg, utilization: {0.25 0 0 0 cpu 0.25}, pods to reschedule: "
     "work-76bb9d6677-r5p74"),
    ("Normal", "ScaleDown", *_STATUS, "Scale-down: node md-a-ssh9m-djwbg removed with drain"),
    ("Normal", "LeaderElection", "Lease", "kube-system", "cluster-autoscaler", "vm became leader"),
    ("Normal", "DeleteUnregistered", *_STATUS, "Removed unregistered node pending-machine-default_a-flfgv-62hrq"),
    ("Warning", "ScaleUpTimedOut", *_STATUS, f"Nodes added to group {A} failed to register within 1m0.480033879s"),
    ("Warning", "FailedToRevertScaleUp", *_STATUS,
     f"Failed to decrease target size for group {A} after scale-up timeout: {STILL_THERE}"),
    ("Warning", "ScaleDownFailed", "Node", "", "a-zrgn2-j6skh",
     f"failed to delete empty node: failed to delete nodes from group {A}: {FROZEN}"),
    ("Normal", "NotTriggerScaleUp", "Pod", "default", "w-6f95b79587-5s8jt",
     "pod didn't trigger scale-up: 1 in backoff after failed scale-up"),
    ("Warning", "FailedToScaleUpGroup", *_STATUS, f"Scale-up failed for group {A}: {FROZEN}"),
    ("Warning", "DeleteUnregisteredFailed", *_STATUS,
     "Failed to remove node pending-machine-default_a-78c5k-zqpgb: min size reached, nodes will not be deleted"),
    ("Normal", "ClusterAutoscalerCleanup", "Node", "", "a-g6ql4-n8rkk",
     "removed ToBeDeletedByClusterAutoscaler taint from node a-g6ql4-n8rkk"),
    ("Normal", "NotTriggerScaleUp", "Pod", "team", "big-5bdbd5f988-kc67x",
     "pod didn't trigger scale-up: 2 max node group size reached"),
    ("Normal", "NotTriggerScaleUp", "Pod", "default", "w-6f95b79587-plg92",
     "pod didn't trigger scale-up: 2 not ready for scale-up"),
)  # fmt: skip
"""Type, reason, the object's kind, namespace and name, and the message."""
