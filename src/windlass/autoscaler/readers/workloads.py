"""Workload reader: PodDisruptionBudgets, controllers of pods, and DaemonSet pods for new nodes."""

from dataclasses import replace

import msgspec

from windlass import errors
from windlass.autoscaler.readers import pods
from windlass.engine.capacity_apis import proactive_pods
from windlass.engine.model import facts, node_groups
from windlass.kube import fields, scheme, selectors
from windlass.kube.models import core, meta
from windlass.kube.models import pods as models
from windlass.selectors import EVERYTHING

CRITICAL_PRIORITY_CLASS = "system-node-critical"

_DAEMON_TOLERATIONS = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)

_HOST_NETWORK_TOLERATIONS = ("node.kubernetes.io/network-unavailable", "NoSchedule")


def read_daemon_set_with_warning(
    daemon_set: models.DaemonSet,
) -> tuple[node_groups.DaemonSet, errors.InvalidObject | None]:
    """Read a DaemonSet and the pod that its controller would create, with a warning about ignored fields of the pod.

    InvalidObject if the pod cannot be read. See `PodReader.read_with_warning`.
    """
    metadata = daemon_set.meta
    template = daemon_set.spec.template if daemon_set.spec else None
    raw = template.spec if template else models.NO_SPEC
    made = models.Pod(metadata=_pod_metadata(daemon_set, template.metadata if template else None), spec=raw)
    try:
        pod, complaint = pods.read_pod_with_warning(made)
    except errors.InvalidObject as error:
        raise _attribute_warning(error, metadata.key) from error
    spec = _decode_spec(raw)
    tolerated = (*_DAEMON_TOLERATIONS, _HOST_NETWORK_TOLERATIONS) if spec.host_network else _DAEMON_TOLERATIONS
    added = tuple(facts.Toleration(key, "Exists", "", effect) for key, effect in tolerated)
    read = node_groups.DaemonSet(
        metadata.namespace or "",
        metadata.name or "",
        metadata.uid or "",
        replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, *added))),
        spec.priority_class_name == CRITICAL_PRIORITY_CLASS and spec.preemption_policy != "Never",
    )
    return read, None if complaint is None else _attribute_warning(complaint, metadata.key)


def _decode_spec(raw: msgspec.Raw) -> models.PodSpec:
    try:
        return models.decode_spec(bytes(raw))
    except RecursionError:
        return models.decode_spec(bytes(scheme.repair_spec(raw)))


def _attribute_warning(complaint: errors.InvalidObject, name: str) -> errors.InvalidObject:
    """Attribute a pod's complaint to the DaemonSet of its template."""
    return replace(complaint, kind="DaemonSet", name=name, field=f"spec.template.{complaint.field}")


def _pod_metadata(daemon_set: models.DaemonSet, template: meta.ObjectMeta | None) -> meta.ObjectMeta:
    """Return the metadata of the template's pod, without a uid: the pod does not exist."""
    owner = daemon_set.meta
    given = template or meta.NO_META
    return meta.ObjectMeta(
        name=owner.name,
        namespace=owner.namespace,
        labels=given.labels,
        annotations=given.annotations,
        owner_references=[
            meta.OwnerReference(
                api_version="apps/v1", kind="DaemonSet", name=owner.name, uid=owner.uid, controller=True
            )
        ],
    )


ReplicaWorkload = models.ReplicaSet | models.StatefulSet | core.ReplicationController


def read_budget(budget: models.PodDisruptionBudget) -> facts.PodDisruptionBudget:
    try:
        return facts.PodDisruptionBudget(
            namespace=budget.meta.namespace or "",
            name=budget.meta.name or "",
            selector=selectors.parse_label_selector(budget.spec.selector if budget.spec else None, "spec.selector"),
            disruptions_allowed=(budget.status.disruptions_allowed if budget.status else None) or 0,
            allows_unhealthy=_allows_unhealthy(budget),
            is_stale=((budget.status and budget.status.observed_generation) or 0) < (budget.meta.generation or 0),
        )
    except fields.InvalidField as error:
        raise error.of("PodDisruptionBudget", budget.meta.key) from error


def _allows_unhealthy(budget: models.PodDisruptionBudget) -> bool:
    """Whether running pods that are not Ready may be evicted regardless of allowed disruptions.

    Only the result is stored: the counts change with every pod that starts, the result seldom.
    """
    if budget.spec is not None and budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
        return True
    status = budget.status or models.PodDisruptionBudgetStatus()
    desired = status.desired_healthy or 0
    return desired > 0 and (status.current_healthy or 0) >= desired


def salvage_budget(budget: models.PodDisruptionBudget, reason: str) -> facts.PodDisruptionBudget:
    """Salvage an unreadable PodDisruptionBudget: it allows no disruption, and without a readable selector it selects
    all pods.
    """
    try:
        label_selector = selectors.parse_label_selector(budget.spec.selector if budget.spec else None, "spec.selector")
    except fields.InvalidField:
        label_selector = None
    return facts.PodDisruptionBudget(
        namespace=budget.meta.namespace or "",
        name=budget.meta.name or "",
        selector=EVERYTHING if label_selector is None else label_selector,
        disruptions_allowed=0,
    )


def read_replica_controller(controller: ReplicaWorkload) -> facts.Controller:
    """Read a controller with replicas; they default to one."""
    replicas = controller.spec.replicas if controller.spec else None
    budget = _read_budget(controller, 1 if replicas is None else replicas)
    if isinstance(controller, models.StatefulSet):
        policy_of_pods = controller.spec.pod_management_policy if controller.spec else None
        return replace(budget, creates_at_once=policy_of_pods != "OrderedReady")
    return budget


def read_job_controller(job: models.Job) -> facts.Controller:
    """Read a Job with the number of pods that it wants now."""
    spec, status = job.spec or models.JobSpec(), job.status or models.JobStatus()
    return _read_budget(job, proactive_pods.desired_job_pods(spec.parallelism, spec.completions, status.succeeded or 0))


def read_active_job(job: models.Job) -> facts.Controller | None:
    """Read a Job; None if it is finished and has no running pods, so that its later deletion is no change."""
    status = job.status
    if status is None or status.active or status.terminating:
        return read_job_controller(job)
    is_over = any(
        condition.type in ("Complete", "Failed") and condition.status == "True" for condition in status.conditions or ()
    )
    return None if is_over else read_job_controller(job)


def read_daemon_set_controller(daemon_set: models.DaemonSet) -> facts.Controller:
    return _read_budget(daemon_set, 1)


def _read_budget(controller: ReplicaWorkload | models.Job | models.DaemonSet, replicas: int) -> facts.Controller:
    metadata = controller.meta
    return facts.Controller(
        kind=type(controller).__name__,
        namespace=metadata.namespace or "",
        name=metadata.name or "",
        uid=metadata.uid or "",
        replicas=replicas,
    )
