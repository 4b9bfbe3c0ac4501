"""autoscaling.x-k8s.io: ProvisioningRequests, CapacityBuffers and CapacityQuotas."""

from __future__ import annotations

from windlass.kube.models import meta
from windlass.kube.models.meta import Amounts, Model, Object


class Condition(meta.Condition, frozen=True):
    message: str | None = None
    observed_generation: int | None = None


class Reference(Model, frozen=True):
    name: str | None = None


class PodSet(Model, frozen=True):
    pod_template_ref: Reference | None = None
    count: int | None = None


class ProvisioningRequestSpec(Model, frozen=True):
    pod_sets: list[PodSet] | None = None
    provisioning_class_name: str | None = None
    parameters: dict[str, str] | None = None


class ProvisioningRequestStatus(Model, frozen=True):
    conditions: list[Condition] | None = None


class ProvisioningRequest(Object, frozen=True):
    """v1 and v1beta1, which have the same used fields."""

    spec: ProvisioningRequestSpec | None = None
    status: ProvisioningRequestStatus | None = None


class ScalableReference(Model, frozen=True):
    api_group: str | None = None
    kind: str | None = None
    name: str | None = None


class CapacityBufferSpec(Model, frozen=True):
    provisioning_strategy: str | None = None
    pod_template_ref: Reference | None = None
    scalable_ref: ScalableReference | None = None
    replicas: int | None = None
    percentage: int | None = None
    limits: Amounts | None = None


class CapacityBufferStatus(Model, frozen=True):
    pod_template_ref: Reference | None = None
    replicas: int | None = None
    pod_template_generation: int | None = None
    provisioning_strategy: str | None = None
    conditions: list[Condition] | None = None


class CapacityBuffer(Object, frozen=True):
    spec: CapacityBufferSpec | None = None
    status: CapacityBufferStatus | None = None


class QuotaLimits(Model, frozen=True):
    resources: Amounts | None = None


class CapacityQuotaSpec(Model, frozen=True):
    selector: meta.LabelSelector | None = None
    limits: QuotaLimits | None = None


class QuotaUse(Model, frozen=True):
    resources: Amounts | None = None


class CapacityQuotaStatus(Model, frozen=True):
    observed_generation: int | None = None
    used: QuotaUse | None = None
    conditions: list[Condition] | None = None


class CapacityQuota(Object, frozen=True):
    spec: CapacityQuotaSpec | None = None
    status: CapacityQuotaStatus | None = None
