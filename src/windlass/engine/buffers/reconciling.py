"""Reconciling the buffers of a namespace: what room each keeps, as its status should say. Texts are the peer's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from windlass.engine.buffers import buffer as buffers
from windlass.engine.buffers import sizing
from windlass.engine.buffers.buffer import Buffer, Sample, Status
from windlass.engine.buffers.resource_quotas import Allowance, ResourceQuota

_LONGEST_NAME = 253
_BEFORE, _AFTER = "capacitybuffer-", "-pod-template"

KINDS = frozenset(
    {
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("core", "ReplicationController"),
        ("batch", "Job"),
    }
)
"""Workloads whose own template is understood; of all others a pod must exist."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a buffer keeps room for: such pods, as its own PodTemplate has them."""

    sample: Sample
    generation: int = 1
    """Of the buffer's own PodTemplate."""
    workload_replicas: int | None = None
    before: Sample | None = None
    """What the PodTemplate said until now, where it was rewritten just now. Quotas count that until the next time, as
    whoever reads it from a cache would."""


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The statuses to be, by key, and whether to try again soon because something could not be found."""

    statuses: Mapping[str, Status]
    try_again: bool


def name_template(buffer: Buffer) -> str:
    """The PodTemplate that belongs to a buffer."""
    return f"{_BEFORE}{buffer.name[: _LONGEST_NAME - len(_BEFORE) - len(_AFTER)]}{_AFTER}"


def say_unresolved(scalable: buffers.Scalable, live_fault: str, own_fault: str) -> str:
    """Why neither a pod of a workload nor its own template can be had. `own_fault` only where it has one."""
    if (scalable.group, scalable.kind) not in KINDS:
        own_fault = f"kind {scalable.group}/{scalable.kind} is not supported to use pod template"
    own = f"failed to resolve scalable object: {own_fault}"
    return f"failed to resolve live pod: {live_fault}, {own}" if live_fault else own


def reconcile(
    found: Sequence[Buffer], what: Mapping[str, Found | str], quotas: Sequence[ResourceQuota], now_s: float
) -> Reconciled:
    """The buffers of one namespace, oldest first. `what`: what each keeps room for, or why that cannot be had."""
    ours = sorted((one for one in found if one.is_ours), key=lambda one: (one.created_s, one.name))
    allowance, statuses, missing = Allowance(quotas), dict[str, Status](), False
    for one in ours:
        kept = what.get(one.key)
        missing |= isinstance(kept, str)
        status = one.status if kept is None else _translate(one, kept, now_s)
        counted = (kept.before or kept.sample) if isinstance(kept, Found) else None
        if counted is not None and status.replicas is not None and counted.requests:
            status = _limit(one, status, counted, allowance, now_s)
        statuses[one.key] = status
    return Reconciled(statuses, missing or bool(allowance.faults))


def _translate(one: Buffer, kept: Found | str, now_s: float) -> Status:
    strategy = buffers.ACTIVE if one.strategy == "" else one.strategy
    status = replace(one.status, pod_template=None, pod_template_generation=None, replicas=None, strategy=strategy)
    if isinstance(kept, str):
        return _say_unready(status, kept, now_s)
    status = replace(status, pod_template=name_template(one), pod_template_generation=kept.generation)
    try:
        count = sizing.count_pods(one, kept.sample.requests, kept.workload_replicas)
    except sizing.Unsizable as error:
        return _say_unready(status, f"couldn't get number of replicas for buffer: {error}", now_s)
    status = replace(status, replicas=count)
    return buffers.put(status, buffers.READY, True, "AttributesSetSuccessfully", "ready", now_s)


def _say_unready(status: Status, why: str, now_s: float) -> Status:
    return buffers.put(status, buffers.READY, False, "error", f"Buffer not ready for provisioning: {why}", now_s)


def _limit(one: Buffer, status: Status, sample: Sample, allowance: Allowance, now_s: float) -> Status:
    wanted = status.replicas or 0
    allowed, blocking = allowance.take(sample, wanted)
    message = ""
    if allowed < wanted:
        message = f"Buffer replicas limited from {wanted} to {allowed} due to quotas: {', '.join(blocking)}"
        status = replace(status, replicas=allowed)
    return buffers.put(
        status, buffers.LIMITED, allowed < wanted, "ResourceQuotasAllocated", message, now_s, one.generation
    )
