"""resource.k8s.io: devices that drivers offer, and claims on them.

Attributes and amounts are kept as the API spells them: only an allocator reads further.
"""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.kube.models import core
from windlass.kube.models.meta import Amounts, Condition, Model, Object, Time

Amount = str | int | float | None


class ResourcePool(Model, frozen=True):
    name: str | None = None
    generation: int | None = None
    resource_slice_count: int | None = None


class CapacityRequestPolicyRange(Model, frozen=True):
    min: Amount = None
    max: Amount = None
    step: Amount = None


class CapacityRequestPolicy(Model, frozen=True):
    default: Amount = None
    valid_values: list[Amount] | None = None
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Model, frozen=True):
    value: Amount = None
    request_policy: CapacityRequestPolicy | None = None


class Counter(Model, frozen=True):
    value: Amount = None


class CounterSet(Model, frozen=True):
    name: str | None = None
    counters: dict[str, Counter | None] | None = None


class DeviceCounterConsumption(Model, frozen=True):
    counter_set: str | None = None
    counters: dict[str, Counter | None] | None = None


class Device(Model, frozen=True):
    name: str | None = None
    attributes: dict[str, dict[str, Any]] | None = None
    capacity: dict[str, DeviceCapacity] | None = None
    consumes_counters: list[DeviceCounterConsumption] | None = None
    node_name: str | None = None
    node_selector: core.NodeSelector | None = None
    all_nodes: bool | None = None
    taints: list[core.Taint] | None = None
    allow_multiple_allocations: bool | None = None
    binding_conditions: list[str] | None = None
    binds_to_node: bool | None = None


class ResourceSliceSpec(Model, frozen=True):
    driver: str | None = None
    pool: ResourcePool | None = None
    node_name: str | None = None
    node_selector: core.NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: list[Device] | None = None
    shared_counters: list[CounterSet] | None = None


class ResourceSlice(Object, frozen=True):
    spec: ResourceSliceSpec | None = None


class CELSelector(Model, frozen=True):
    expression: str | None = None


class DeviceSelector(Model, frozen=True):
    cel: CELSelector | None = None


class DeviceClassSpec(Model, frozen=True):
    selectors: list[DeviceSelector] | None = None
    extended_resource_name: str | None = None


class DeviceClass(Object, frozen=True):
    spec: DeviceClassSpec | None = None


class DeviceTaintSelector(Model, frozen=True):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Model, frozen=True):
    device_selector: DeviceTaintSelector | None = None
    taint: core.Taint | None = None


class DeviceTaintRule(Object, frozen=True):
    spec: DeviceTaintRuleSpec | None = None


class DeviceToleration(Model, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class CapacityRequirements(Model, frozen=True):
    requests: Amounts | None = None


class ExactDeviceRequest(Model, frozen=True):
    device_class_name: str | None = None
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str | None = None
    count: int | None = None
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] | None = None
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(ExactDeviceRequest, frozen=True):
    name: str | None = None


class DeviceRequest(Model, frozen=True):
    name: str | None = None
    exactly: ExactDeviceRequest | None = None
    first_available: list[DeviceSubRequest] | None = None


class DeviceConstraint(Model, frozen=True):
    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(Model, frozen=True):
    requests: list[DeviceRequest] | None = None
    constraints: list[DeviceConstraint] | None = None


class ResourceClaimSpec(Model, frozen=True):
    devices: DeviceClaim | None = None


class DeviceResult(Model, frozen=True):
    request: str | None = None
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    admin_access: bool | None = None
    consumed_capacity: Amounts | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None


class AllocatedDeviceStatus(Model, frozen=True):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    conditions: list[Condition] | None = None


class AllocatedDevices(Model, frozen=True):
    results: list[DeviceResult] | None = None


class Allocation(Model, frozen=True):
    devices: AllocatedDevices | None = None
    node_selector: core.NodeSelector | None = None
    allocation_timestamp: Time | None = None


class Consumer(Model, frozen=True):
    api_group: str | None = None
    resource: str | None = None
    name: str | None = None
    uid: str | None = None


class ResourceClaimStatus(Model, frozen=True):
    allocation: Allocation | None = None
    reserved_for: list[Consumer] | None = None
    devices: list[AllocatedDeviceStatus] | None = None


class ResourceClaim(Object, frozen=True):
    spec: ResourceClaimSpec | None = None
    status: ResourceClaimStatus | None = None


class ClaimTemplate(Model, frozen=True):
    spec: ResourceClaimSpec | None = None


class ResourceClaimTemplate(Object, frozen=True):
    spec: ClaimTemplate | None = None
