"""Reading CapacityBuffers and what goes with them: ResourceQuotas, and pods of their templates."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from windlass.autoscaler.observe import pods
from windlass.engine import facts, pod_traits
from windlass.engine.buffers import injecting
from windlass.engine.buffers.buffer import Buffer, Scalable, Status
from windlass.engine.buffers.resource_quotas import ResourceQuota, Scope
from windlass.engine.provisioning.request import Condition
from windlass.kube import fields
from windlass.kube.models import autoscaling, meta
from windlass.kube.models import pods as pod_models
from windlass.quantity import Quantity

API_VERSION = "autoscaling.x-k8s.io/v1beta1"
KIND = "CapacityBuffer"
Json = dict[str, Any]


def read(found: autoscaling.CapacityBuffer) -> Buffer:
    """InvalidObject if its limits cannot be read."""
    metadata, spec = found.meta, found.spec or autoscaling.CapacityBufferSpec()
    target = spec.scalable_ref
    try:
        limits = None if spec.limits is None else read_amounts(spec.limits, "spec.limits")
    except fields.InvalidField as error:
        raise error.of(KIND, metadata.key) from error
    return Buffer(
        metadata.namespace or "",
        metadata.name or "",
        metadata.uid or "",
        metadata.generation or 0,
        meta.seconds(metadata.creation_timestamp) or 0.0,
        spec.provisioning_strategy,
        spec.pod_template_ref.name if spec.pod_template_ref else None,
        Scalable(target.api_group or "", target.kind or "", target.name or "") if target else None,
        spec.replicas,
        spec.percentage,
        limits,
        _read_status(found.status or autoscaling.CapacityBufferStatus()),
    )


def _read_status(found: autoscaling.CapacityBufferStatus) -> Status:
    said = tuple(
        Condition(
            one.type or "",
            one.status or "",
            one.reason or "",
            one.message or "",
            meta.seconds(one.last_transition_time) or 0.0,
            one.observed_generation,
        )
        for one in found.conditions or ()
    )
    template = found.pod_template_ref.name if found.pod_template_ref else None
    return Status(template, found.pod_template_generation, found.replicas, found.provisioning_strategy, said)


def read_quota(found: Mapping[str, Any]) -> ResourceQuota:
    spec, status = found.get("spec") or {}, found.get("status") or {}
    scopes = [Scope(name) for name in spec.get("scopes") or ()]
    scopes += [
        Scope(one.get("scopeName", ""), one.get("operator", ""), tuple(one.get("values") or ()))
        for one in (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    ]
    hard, used = (read_amounts(status.get(part) or {}, f"status.{part}") for part in ("hard", "used"))
    return ResourceQuota(found["metadata"]["name"], hard, used, tuple(scopes))


def read_amounts(found: Mapping[str, Any], at: str) -> dict[str, Quantity]:
    return {name: fields.read_quantity(value, f"{at}[{name}]") for name, value in found.items()}


def make_spare(one: Buffer, template: Mapping[str, Any], count: int) -> injecting.Spare:
    """The pods that a buffer keeps room for. InvalidObject if they cannot be read."""
    told, spec = template.get("metadata") or {}, dict(template.get("spec") or {})
    spec.pop("nodeName", None)
    metadata = meta.ObjectMeta(
        name=one.name,
        namespace=one.namespace,
        labels=told.get("labels"),
        annotations=told.get("annotations"),
        owner_references=[
            meta.OwnerReference(api_version=API_VERSION, kind=KIND, name=one.name, uid=one.uid, controller=True)
        ],
    )
    raw = msgspec.Raw(msgspec.json.encode(spec))
    pod: facts.Pod = pods.read(pod_models.Pod(metadata=metadata, spec=raw), pending=True)
    mine = {**pod.annotations, injecting.FAKE_POD[0]: injecting.FAKE_POD[1], pod_traits.SAFE_TO_EVICT: "true"}
    return injecting.Spare(replace(pod, annotations=mine), tuple(injecting.name_pods(one, count)))
