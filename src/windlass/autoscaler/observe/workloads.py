"""Workloads: budgets and the controllers of pods."""

from dataclasses import replace

from windlass.engine import facts
from windlass.engine.buffers import proactive
from windlass.kube import fields, selectors
from windlass.kube.models import apps, batch, core, policy
from windlass.selectors import EVERYTHING

Scaled = apps.ReplicaSet | apps.StatefulSet | core.ReplicationController


def read_budget(budget: policy.PodDisruptionBudget) -> facts.PodDisruptionBudget:
    try:
        return facts.PodDisruptionBudget(
            namespace=budget.meta.namespace or "",
            name=budget.meta.name or "",
            selector=selectors.read_labels(budget.spec.selector if budget.spec else None, "spec.selector"),
            disruptions_allowed=(budget.status.disruptions_allowed if budget.status else None) or 0,
            allows_unhealthy=_allows_unhealthy(budget),
        )
    except fields.InvalidField as error:
        raise error.of("PodDisruptionBudget", budget.meta.key) from error


def _allows_unhealthy(budget: policy.PodDisruptionBudget) -> bool:
    """May pods that run and are not Ready be evicted, whatever disruptions are allowed?

    Only the answer is kept: the counts change with every pod that starts, the answer seldom.
    """
    if budget.spec is not None and budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
        return True
    status = budget.status or policy.PodDisruptionBudgetStatus()
    desired = status.desired_healthy or 0
    return desired > 0 and (status.current_healthy or 0) >= desired


def salvage_budget(budget: policy.PodDisruptionBudget, why: str) -> facts.PodDisruptionBudget:
    """A budget that cannot be read in full allows nothing; one of which nobody knows whom it selects selects all."""
    try:
        found = selectors.read_labels(budget.spec.selector if budget.spec else None, "spec.selector")
    except fields.InvalidField:
        found = None
    return facts.PodDisruptionBudget(
        namespace=budget.meta.namespace or "",
        name=budget.meta.name or "",
        selector=EVERYTHING if found is None else found,
        disruptions_allowed=0,
    )


def read_scaled(controller: Scaled) -> facts.Controller:
    """A controller that keeps a number of pods; where it tells none, the API means one."""
    replicas = controller.spec.replicas if controller.spec else None
    found = _read(controller, 1 if replicas is None else replicas)
    if isinstance(controller, apps.StatefulSet):
        policy_of_pods = controller.spec.pod_management_policy if controller.spec else None
        return replace(found, creates_at_once=policy_of_pods != "OrderedReady")
    return found


def read_job(job: batch.Job) -> facts.Controller:
    """A job with the pods that it wants to have now."""
    spec, status = job.spec or batch.JobSpec(), job.status or batch.JobStatus()
    return _read(job, proactive.desired_of_job(spec.parallelism, spec.completions, status.succeeded or 0))


def read_job_under_way(job: batch.Job) -> facts.Controller | None:
    """None for a job that is over and has no pods left that run: that such jobs go in the end is no change."""
    status = job.status
    if status is None or status.active or status.terminating:
        return read_job(job)
    is_over = any(one.type in ("Complete", "Failed") and one.status == "True" for one in status.conditions or ())
    return None if is_over else read_job(job)


def read_daemon_set(daemon_set: apps.DaemonSet) -> facts.Controller:
    return _read(daemon_set, 1)


def _read(controller: Scaled | batch.Job | apps.DaemonSet, replicas: int) -> facts.Controller:
    metadata = controller.meta
    return facts.Controller(
        kind=type(controller).__name__,
        namespace=metadata.namespace or "",
        name=metadata.name or "",
        uid=metadata.uid or "",
        replicas=replicas,
    )
