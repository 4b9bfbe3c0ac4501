"""DRA reader: ResourceSlices, DeviceClasses, ResourceClaims, DeviceTaintRules, and the claims of pods.

Includes extended resources that are backed by DRA devices.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from windlass import errors
from windlass.engine.model import dynamic_resources, facts
from windlass.engine.model.dynamic_resources import SelectorError
from windlass.kube import fields, selectors
from windlass.kube.models import core, meta, pods, resource

EXTENDED_RESOURCE = "resource.kubernetes.io/extended-resource-claim"

Read = TypeVar("Read")

Object = TypeVar("Object", bound=meta.Object)


def _with_object_name(kind: str, read: Callable[[Object], Read]) -> Callable[[Object], Read]:
    """Wrap a reader so that its errors name the object."""

    def checked(found: Object) -> Read:
        try:
            return read(found)
        except fields.InvalidField as error:
            raise error.of(kind, found.meta.key) from error

    return checked


# ── Slices ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _read_resource_slice(resource_slice: resource.ResourceSlice) -> dynamic_resources.ResourceSlice:
    spec = resource_slice.spec or resource.ResourceSliceSpec()
    pool = spec.pool or resource.ResourcePool()
    return dynamic_resources.ResourceSlice(
        name=resource_slice.meta.name or "",
        driver=spec.driver or "",
        pool=pool.name or "",
        generation=pool.generation or 0,
        slice_count=pool.resource_slice_count or 0,
        reach=_read_node_selection(spec, "spec"),
        is_per_device=bool(spec.per_device_node_selection),
        devices=tuple(_read_device(device, f"spec.devices[{i}]") for i, device in enumerate(spec.devices or ())),
        counters=tuple(
            (counter_set.name or "", _read_counters(counter_set.counters, f"spec.sharedCounters[{i}].counters"))
            for i, counter_set in enumerate(spec.shared_counters or ())
        ),
    )


def _read_node_selection(
    selection: resource.ResourceSliceSpec | resource.Device, at: str
) -> dynamic_resources.NodeReach:
    """As kube-scheduler decides: by the name, else by `allNodes`, else by the selector."""
    if selection.node_name or selection.all_nodes:
        return dynamic_resources.NodeReach(selection.node_name or "", bool(selection.all_nodes))
    try:
        selector = selectors.parse_node_selector(selection.node_selector, f"{at}.nodeSelector")
    except selectors.InvalidSelector as error:
        shown = selectors.format_node_selector(selection.node_selector or core.NodeSelector())
        return dynamic_resources.NodeReach(selector_fault=f"failed to parse node selector {shown}: {error.message}")
    return dynamic_resources.NodeReach(node_selector=selector)


def _read_device(device: resource.Device, at: str) -> dynamic_resources.Device:
    return dynamic_resources.Device(
        name=device.name or "",
        traits=dynamic_resources.DeviceTraits(
            tuple(sorted((name, _read_attribute(value)) for name, value in (device.attributes or {}).items())),
            tuple(
                (name, _read_capacity(value, f"{at}.capacity[{name}]"))
                for name, value in sorted((device.capacity or {}).items())
            ),
            bool(device.allow_multiple_allocations),
        ),
        consumes=tuple(
            (
                device_counter_consumption.counter_set or "",
                _read_counters(device_counter_consumption.counters, f"{at}.consumesCounters[{i}].counters"),
            )
            for i, device_counter_consumption in enumerate(device.consumes_counters or ())
        ),
        taints=tuple(_read_taint(taint) for taint in device.taints or ()),
        reach=_read_node_selection(device, at),
        has_binding_conditions=device.binding_conditions is not None,
        binds_to_node=bool(device.binds_to_node),
    )


def _read_taint(taint: core.Taint) -> dynamic_resources.DeviceTaint:
    return dynamic_resources.DeviceTaint(taint.key or "", taint.value or "", taint.effect or "")


def _read_attribute(value: Mapping[str, Any]) -> dynamic_resources.AttributeValue:
    """Return the value of an attribute; None if its type is unknown."""
    match value:
        case {"int": int(number)} if not isinstance(number, bool):
            return number
        case {"bool": bool(truth)}:
            return truth
        case {"string": str(text)}:
            return text
        case {"version": str(text)}:
            return dynamic_resources.VersionValue(text)
    return None


def _read_capacity(device_capacity: resource.DeviceCapacity, at: str) -> dynamic_resources.DeviceCapacity:
    policy = device_capacity.request_policy
    return dynamic_resources.DeviceCapacity(
        fields.read_quantity(device_capacity.value, f"{at}.value").nano,
        None if policy is None else _read_policy(policy, f"{at}.requestPolicy"),
    )


def _read_policy(policy: resource.CapacityRequestPolicy, at: str) -> dynamic_resources.CapacityRequestPolicy:
    bounds = policy.valid_range or resource.CapacityRequestPolicyRange()
    return dynamic_resources.CapacityRequestPolicy(
        default=_read_limit(policy.default, f"{at}.default"),
        values=tuple(fields.read_quantity(value, f"{at}.validValues").nano for value in policy.valid_values or ()),
        has_range=policy.valid_range is not None,
        minimum=_read_limit(bounds.min, f"{at}.validRange.min"),
        maximum=_read_limit(bounds.max, f"{at}.validRange.max"),
        step=_read_limit(bounds.step, f"{at}.validRange.step"),
    )


def _read_limit(value: object, at: str) -> int | None:
    return None if value is None else fields.read_quantity(value, at).nano


def _read_counters(counters: Mapping[str, resource.Counter | None] | None, at: str) -> dynamic_resources.NanoAmounts:
    amounts = {name: None if counter is None else counter.value for name, counter in (counters or {}).items()}
    return tuple((name, fields.read_quantity(amounts[name], f"{at}[{name}].value").nano) for name in sorted(amounts))


def _read_taint_rule(device_taint_rule: resource.DeviceTaintRule) -> dynamic_resources.DeviceTaintRule:
    spec = device_taint_rule.spec or resource.DeviceTaintRuleSpec()
    selector = spec.device_selector or resource.DeviceTaintSelector()
    return dynamic_resources.DeviceTaintRule(
        device_taint_rule.meta.name or "",
        _read_taint(spec.taint or core.Taint()),
        spec.device_selector is not None,
        selector.driver,
        selector.pool,
        selector.device,
    )


# ── Classes and claims ───────────────────────────────────────────────────────────────────────────────────────────


def _read_device_class(device_class: resource.DeviceClass) -> dynamic_resources.DeviceClass:
    spec = device_class.spec or resource.DeviceClassSpec()
    return dynamic_resources.DeviceClass(
        device_class.meta.name or "",
        _read_selectors(spec.selectors),
        spec.extended_resource_name or "",
        meta.seconds(device_class.meta.creation_timestamp) or 0.0,
    )


def _read_selectors(device_selectors: Sequence[resource.DeviceSelector] | None) -> tuple[str, ...]:
    return tuple(
        (device_selector.cel.expression if device_selector.cel else None) or ""
        for device_selector in device_selectors or ()
    )


def _read_resource_claim(resource_claim: resource.ResourceClaim) -> dynamic_resources.ResourceClaim:
    metadata, status = resource_claim.meta, resource_claim.status or resource.ResourceClaimStatus()
    owner = metadata.controller
    return dynamic_resources.ResourceClaim(
        namespace=metadata.namespace or "",
        name=metadata.name or "",
        uid=metadata.uid or "",
        owner_uid=(owner.uid if owner is not None and owner.kind == "Pod" else None) or "",
        owner_name=(owner.name if owner is not None and owner.kind == "Pod" else None) or "",
        is_terminating=metadata.deletion_timestamp is not None,
        is_for_extended_resources=(metadata.annotations or {}).get(EXTENDED_RESOURCE) == "true",
        spec=read_claim_spec(resource_claim.spec or resource.ResourceClaimSpec()),
        allocation=None if status.allocation is None else _read_allocation(status.allocation, status),
        reserved_for=tuple(consumer.uid or "" for consumer in status.reserved_for or () if consumer.resource == "pods"),
    )


def read_claim_spec(spec: resource.ResourceClaimSpec) -> dynamic_resources.ClaimSpec:
    devices = spec.devices or resource.DeviceClaim()
    return dynamic_resources.ClaimSpec(
        tuple(
            _read_request(device_request, f"spec.devices.requests[{i}]")
            for i, device_request in enumerate(devices.requests or ())
        ),
        tuple(
            dynamic_resources.DeviceConstraint(
                frozenset(device_constraint.requests or ()),
                device_constraint.match_attribute or "",
                device_constraint.distinct_attribute or "",
            )
            for device_constraint in devices.constraints or ()
        ),
    )


def _read_request(request: resource.DeviceRequest, at: str) -> dynamic_resources.DeviceRequest:
    name, exactly = request.name or "", request.exactly
    return dynamic_resources.DeviceRequest(
        name,
        None if exactly is None else _read_subrequest(name, exactly, f"{at}.exactly"),
        tuple(
            _read_subrequest(device_sub_request.name or "", device_sub_request, f"{at}.firstAvailable[{i}]")
            for i, device_sub_request in enumerate(request.first_available or ())
        ),
    )


def _read_subrequest(name: str, exact: resource.ExactDeviceRequest, at: str) -> dynamic_resources.ExactDeviceRequest:
    capacity = None if exact.capacity is None else exact.capacity.requests or {}
    return dynamic_resources.ExactDeviceRequest(
        name=name,
        device_class=exact.device_class_name or "",
        selectors=_read_selectors(exact.selectors),
        mode=exact.allocation_mode or dynamic_resources.ALLOCATION_MODE_EXACT_COUNT,
        count=1 if exact.count is None else exact.count,
        admin_access=bool(exact.admin_access),
        tolerations=tuple(
            dynamic_resources.DeviceToleration(
                device_toleration.key or "",
                device_toleration.operator or "",
                device_toleration.value or "",
                device_toleration.effect or "",
            )
            for device_toleration in exact.tolerations or ()
        ),
        capacity=None
        if capacity is None
        else tuple(sorted(fields.read_amounts(capacity, f"{at}.capacity.requests").items())),
    )


def _read_allocation(
    allocation: resource.Allocation, status: resource.ResourceClaimStatus
) -> dynamic_resources.ClaimAllocation:
    results = (allocation.devices.results if allocation.devices else None) or ()
    selector, selector_fault = None, ""
    try:
        selector = selectors.parse_node_selector(allocation.node_selector, "status.allocation.nodeSelector")
    except selectors.InvalidSelector as error:
        selector_fault = error.message
    return dynamic_resources.ClaimAllocation(
        tuple(_read_result(device_result, i) for i, device_result in enumerate(results)),
        selector,
        *_read_binding(allocation, results, status),
        selector_fault=selector_fault,
    )


def _read_result(device_result: resource.DeviceResult, number: int) -> dynamic_resources.DeviceAllocation:
    at = f"status.allocation.devices.results[{number}].consumedCapacity"
    return dynamic_resources.DeviceAllocation(
        dynamic_resources.DeviceId(device_result.driver or "", device_result.pool or "", device_result.device or ""),
        bool(device_result.admin_access),
        device_result.share_id is not None,
        tuple(sorted(fields.read_amounts(device_result.consumed_capacity, at).items())),
    )


def _read_binding(
    allocation: resource.Allocation, results: Sequence[resource.DeviceResult], status: resource.ResourceClaimStatus
) -> tuple[bool, float | None]:
    """Return whether a device failed to become ready, and since when the claim waits for its devices.

    Devices are checked in order; the first that is not ready decides.
    """
    for result in results:
        if not result.binding_conditions:
            continue
        conditions = _find_conditions(result, status)
        if any(conditions.get(name) == "True" for name in result.binding_failure_conditions or ()):
            return True, None
        if not all(conditions.get(name) == "True" for name in result.binding_conditions):
            return False, meta.seconds(allocation.allocation_timestamp)
    return False, None


def _find_conditions(result: resource.DeviceResult, status: resource.ResourceClaimStatus) -> dict[str, str]:
    """Return a device's binding conditions; the first condition of each type counts."""
    device = (result.driver, result.pool, result.device)
    said = next(
        (
            allocated_device_status
            for allocated_device_status in status.devices or ()
            if (allocated_device_status.driver, allocated_device_status.pool, allocated_device_status.device) == device
        ),
        None,
    )
    conditions: dict[str, str] = {}
    for condition in (said.conditions if said is not None else None) or ():
        conditions.setdefault(condition.type or "", condition.status or "")
    return conditions


def find_complaint(fact: dynamic_resources.DeviceFact) -> errors.InvalidObject | None:
    """The complaint about the first node selector that kube-scheduler cannot parse."""
    match fact:
        case dynamic_resources.ResourceSlice():
            reaches = [device.reach for device in fact.devices] if fact.is_per_device else [fact.reach]
            at, name, effect = "spec.nodeSelector", fact.name, "it allocates no devices on any node"
            if fact.is_per_device:
                at, effect = "spec.devices.nodeSelector", "it allocates no devices on nodes that use no device before"
            faults = [reach.selector_fault for reach in reaches]
        case dynamic_resources.ResourceClaim() if fact.allocation is not None:
            at, name, effect = "status.allocation.nodeSelector", str(fact.key), "it places no pod with this claim"
            faults = [fact.allocation.selector_fault]
        case _:
            return None
    found = next(filter(None, faults), None)
    accepted = f"a node selector that kube-scheduler can parse; while it cannot, {effect}"
    return None if found is None else errors.InvalidObject(type(fact).__name__, name, at, found, accepted)


def report_selector_errors(selector_errors: Iterable[SelectorError]) -> tuple[errors.InvalidObject, ...]:
    """Report selectors that cannot be evaluated, as complaints about their claims and classes."""
    return tuple(_report_selector_error(selector_error) for selector_error in selector_errors)


def _report_selector_error(selector_error: SelectorError) -> errors.InvalidObject:
    kind = "ResourceClaim" if isinstance(selector_error.owner, dynamic_resources.ClaimKey) else "DeviceClass"
    request = f"devices.requests[{selector_error.request}]." if selector_error.request else ""
    at = f"spec.{request}selectors[{selector_error.position}].cel.expression"
    return errors.InvalidObject(
        kind,
        str(selector_error.owner),
        at,
        selector_error.expression,
        f"an expression that can be evaluated: {selector_error.error}",
    )


read_resource_slice = _with_object_name("ResourceSlice", _read_resource_slice)

read_taint_rule = _with_object_name("DeviceTaintRule", _read_taint_rule)

read_device_class = _with_object_name("DeviceClass", _read_device_class)

read_resource_claim = _with_object_name("ResourceClaim", _read_resource_claim)

CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


def read_pod_claims(spec: pods.PodSpec) -> tuple[facts.PodClaim, ...]:
    """Return the claims that a pod template refers to; generated claims are not known from it."""
    return tuple(
        facts.PodClaim(
            pod_resource_claim.name or "",
            pod_resource_claim.resource_claim_name,
            pod_resource_claim.resource_claim_name is None
            and pod_resource_claim.resource_claim_template_name is not None,
            pod_resource_claim.resource_claim_name is not None
            or pod_resource_claim.resource_claim_template_name is not None,
        )
        for pod_resource_claim in spec.resource_claims or ()
    )


def resolve_pod_claims(claims: tuple[facts.PodClaim, ...], pod: pods.Pod) -> dict[str, object]:
    """Return the pod-specific part of its spec: generated claims, and its name where it is referenced."""
    if not any(pod_claim.is_made_for_pod or not pod_claim.is_known for pod_claim in claims):
        return {}
    statuses = (pod.status.resource_claim_statuses if pod.status else None) or ()
    made = {
        pod_resource_claim_status.name: pod_resource_claim_status.resource_claim_name or ""
        for pod_resource_claim_status in statuses
    }
    name, uid = pod.meta.name or "", pod.meta.uid or ""
    return {
        "claims": tuple(
            facts.PodClaim(claim.name, made.get(claim.name), True, True, name, uid)
            if claim.is_made_for_pod
            else (claim if claim.is_known else facts.PodClaim(claim.name, None, False, False, name, uid))
            for claim in claims
        )
    }


def read_extended_resources(spec: pods.PodSpec) -> tuple[facts.ExtendedRequest, ...]:
    """Return extended resource requests of a pod, in the form that kube-scheduler uses to allocate DRA devices.

    Each regular and sidecar container has a request of its own. Init containers reuse the devices of later containers;
    what they need beyond these is one request, the largest.
    """
    initial = spec.init_containers or ()
    containers = (*initial, *(spec.containers or ()))
    desired = [_extended_amounts(container, i) for i, container in enumerate(containers)]
    extended_requests: list[facts.ExtendedRequest] = []
    for name in sorted({name for amounts in desired for name in amounts}):
        staying: dict[int, int] = {}
        for i, amounts in enumerate(desired):
            if i >= len(initial) or containers[i].is_sidecar:
                staying[i] = amounts.get(name, 0)
        passing = [
            (i, desired[i].get(name, 0) - sum(count for later, count in staying.items() if later >= i))
            for i in range(len(initial))
            if i not in staying
        ]
        most = max(passing, key=lambda pair: pair[1], default=(0, 0))
        if most[1] > 0:
            extended_requests.append(_make_extended_request(containers[most[0]], most[0], name, most[1]))
        extended_requests += [
            _make_extended_request(containers[i], i, name, count) for i, count in staying.items() if count
        ]
    return tuple(
        sorted(extended_requests, key=lambda extended_request: (extended_request.name, extended_request.resource))
    )


def _extended_amounts(container: pods.Container, number: int) -> dict[str, int]:
    """Return whole amounts by extended resource; fractional amounts are ignored."""
    requests = (container.resources.requests if container.resources else None) or {}
    names = [name for name in requests if is_extended_resource(name)]
    amounts = {name: fields.read_quantity(requests[name], f"spec.containers[{number}]") for name in names}
    return {name: amount.value() for name, amount in amounts.items() if amount.nano > 0 and amount.nano % 10**9 == 0}


def is_extended_resource(name: str) -> bool:
    return name.startswith(CLASS_PREFIX) or ("/" in name and "kubernetes.io/" not in name)


def _make_extended_request(container: pods.Container, number: int, name: str, count: int) -> facts.ExtendedRequest:
    position = sorted((container.resources.requests if container.resources else None) or ()).index(name)
    return facts.ExtendedRequest(f"container-{number}-request-{position}", name, count)
