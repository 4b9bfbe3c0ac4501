"""Devices: slices, classes and claims as the engine sees them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from windlass import errors
from windlass.engine.devices import model
from windlass.engine.devices.outcome import SelectorError
from windlass.kube import fields, selectors
from windlass.kube.models import core, meta, resource

EXTENDED_RESOURCE = "resource.kubernetes.io/extended-resource-claim"
Read = TypeVar("Read")
Object = TypeVar("Object", bound=meta.Object)


def _complaining(kind: str, read: Callable[[Object], Read]) -> Callable[[Object], Read]:
    """The reader, whose complaints name the object."""

    def checked(found: Object) -> Read:
        try:
            return read(found)
        except fields.InvalidField as error:
            raise error.of(kind, found.meta.key) from error

    return checked


# ── Slices ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _read_slice(found: resource.ResourceSlice) -> model.ResourceSlice:
    spec = found.spec or resource.ResourceSliceSpec()
    pool = spec.pool or resource.ResourcePool()
    return model.ResourceSlice(
        name=found.meta.name or "",
        driver=spec.driver or "",
        pool=pool.name or "",
        generation=pool.generation or 0,
        slice_count=pool.resource_slice_count or 0,
        reach=_read_reach(spec, "spec"),
        is_per_device=bool(spec.per_device_node_selection),
        devices=tuple(_read_device(one, f"spec.devices[{i}]") for i, one in enumerate(spec.devices or ())),
        counters=tuple(
            (one.name or "", _read_counters(one.counters, f"spec.sharedCounters[{i}].counters"))
            for i, one in enumerate(spec.shared_counters or ())
        ),
    )


def _read_reach(found: resource.ResourceSliceSpec | resource.Device, at: str) -> model.Reach:
    selector = selectors.read_nodes(found.node_selector, f"{at}.nodeSelector")
    return model.Reach(found.node_name or "", bool(found.all_nodes), selector)


def _read_device(device: resource.Device, at: str) -> model.Device:
    return model.Device(
        name=device.name or "",
        traits=model.Traits(
            tuple(sorted((name, _read_attribute(value)) for name, value in (device.attributes or {}).items())),
            tuple(
                (name, _read_capacity(value, f"{at}.capacity[{name}]"))
                for name, value in sorted((device.capacity or {}).items())
            ),
            bool(device.allow_multiple_allocations),
        ),
        consumes=tuple(
            (one.counter_set or "", _read_counters(one.counters, f"{at}.consumesCounters[{i}].counters"))
            for i, one in enumerate(device.consumes_counters or ())
        ),
        taints=tuple(_read_taint(taint) for taint in device.taints or ()),
        reach=_read_reach(device, at),
        has_binding_conditions=device.binding_conditions is not None,
        binds_to_node=bool(device.binds_to_node),
    )


def _read_taint(taint: core.Taint) -> model.DeviceTaint:
    return model.DeviceTaint(taint.key or "", taint.value or "", taint.effect or "")


def _read_attribute(value: Mapping[str, Any]) -> model.Attribute:
    """Of the values that an attribute may have, the one that it has; None where that is none of those known here."""
    match value:
        case {"int": int(number)} if not isinstance(number, bool):
            return number
        case {"bool": bool(truth)}:
            return truth
        case {"string": str(text)}:
            return text
        case {"version": str(text)}:
            return model.VersionText(text)
    return None


def _read_capacity(found: resource.DeviceCapacity, at: str) -> model.Capacity:
    policy = found.request_policy
    return model.Capacity(
        fields.read_quantity(found.value, f"{at}.value").nano,
        None if policy is None else _read_policy(policy, f"{at}.requestPolicy"),
    )


def _read_policy(policy: resource.CapacityRequestPolicy, at: str) -> model.RequestPolicy:
    bounds = policy.valid_range or resource.CapacityRequestPolicyRange()
    return model.RequestPolicy(
        default=_read_limit(policy.default, f"{at}.default"),
        values=tuple(fields.read_quantity(value, f"{at}.validValues").nano for value in policy.valid_values or ()),
        has_range=policy.valid_range is not None,
        minimum=_read_limit(bounds.min, f"{at}.validRange.min"),
        maximum=_read_limit(bounds.max, f"{at}.validRange.max"),
        step=_read_limit(bounds.step, f"{at}.validRange.step"),
    )


def _read_limit(value: object, at: str) -> int | None:
    return None if value is None else fields.read_quantity(value, at).nano


def _read_counters(counters: Mapping[str, resource.Counter | None] | None, at: str) -> model.Amounts:
    amounts = {name: None if counter is None else counter.value for name, counter in (counters or {}).items()}
    return tuple((name, fields.read_quantity(amounts[name], f"{at}[{name}].value").nano) for name in sorted(amounts))


def _read_taint_rule(found: resource.DeviceTaintRule) -> model.DeviceTaintRule:
    spec = found.spec or resource.DeviceTaintRuleSpec()
    selector = spec.device_selector or resource.DeviceTaintSelector()
    return model.DeviceTaintRule(
        found.meta.name or "",
        _read_taint(spec.taint or core.Taint()),
        spec.device_selector is not None,
        selector.driver,
        selector.pool,
        selector.device,
    )


# ── Classes and claims ───────────────────────────────────────────────────────────────────────────────────────────


def _read_class(found: resource.DeviceClass) -> model.DeviceClass:
    spec = found.spec or resource.DeviceClassSpec()
    return model.DeviceClass(
        found.meta.name or "",
        _read_selectors(spec.selectors),
        spec.extended_resource_name or "",
        meta.seconds(found.meta.creation_timestamp) or 0.0,
    )


def _read_selectors(found: Sequence[resource.DeviceSelector] | None) -> tuple[str, ...]:
    return tuple((one.cel.expression if one.cel else None) or "" for one in found or ())


def _read_claim(found: resource.ResourceClaim) -> model.ResourceClaim:
    metadata, status = found.meta, found.status or resource.ResourceClaimStatus()
    owner = metadata.controller
    return model.ResourceClaim(
        namespace=metadata.namespace or "",
        name=metadata.name or "",
        uid=metadata.uid or "",
        owner_uid=(owner.uid if owner is not None and owner.kind == "Pod" else None) or "",
        owner_name=(owner.name if owner is not None and owner.kind == "Pod" else None) or "",
        is_terminating=metadata.deletion_timestamp is not None,
        is_for_extended_resources=(metadata.annotations or {}).get(EXTENDED_RESOURCE) == "true",
        spec=read_claim_spec(found.spec or resource.ResourceClaimSpec()),
        allocation=None if status.allocation is None else _read_allocation(status.allocation, status),
        reserved_for=tuple(one.uid or "" for one in status.reserved_for or () if one.resource == "pods"),
    )


def read_claim_spec(spec: resource.ResourceClaimSpec) -> model.ClaimSpec:
    devices = spec.devices or resource.DeviceClaim()
    return model.ClaimSpec(
        tuple(_read_request(one, f"spec.devices.requests[{i}]") for i, one in enumerate(devices.requests or ())),
        tuple(
            model.Constraint(frozenset(one.requests or ()), one.match_attribute or "", one.distinct_attribute or "")
            for one in devices.constraints or ()
        ),
    )


def _read_request(request: resource.DeviceRequest, at: str) -> model.Request:
    name, exactly = request.name or "", request.exactly
    return model.Request(
        name,
        None if exactly is None else _read_wanted(name, exactly, f"{at}.exactly"),
        tuple(
            _read_wanted(one.name or "", one, f"{at}.firstAvailable[{i}]")
            for i, one in enumerate(request.first_available or ())
        ),
    )


def _read_wanted(name: str, wanted: resource.ExactDeviceRequest, at: str) -> model.Wanted:
    capacity = None if wanted.capacity is None else wanted.capacity.requests or {}
    return model.Wanted(
        name=name,
        device_class=wanted.device_class_name or "",
        selectors=_read_selectors(wanted.selectors),
        mode=wanted.allocation_mode or model.EXACT_COUNT,
        count=1 if wanted.count is None else wanted.count,
        admin_access=bool(wanted.admin_access),
        tolerations=tuple(
            model.DeviceToleration(one.key or "", one.operator or "", one.value or "", one.effect or "")
            for one in wanted.tolerations or ()
        ),
        capacity=None
        if capacity is None
        else tuple(sorted(fields.read_amounts(capacity, f"{at}.capacity.requests").items())),
    )


def _read_allocation(found: resource.Allocation, status: resource.ResourceClaimStatus) -> model.Allocation:
    results = (found.devices.results if found.devices else None) or ()
    return model.Allocation(
        tuple(_read_result(one, i) for i, one in enumerate(results)),
        selectors.read_nodes(found.node_selector, "status.allocation.nodeSelector"),
        *_read_binding(found, results, status),
    )


def _read_result(found: resource.DeviceResult, number: int) -> model.Result:
    at = f"status.allocation.devices.results[{number}].consumedCapacity"
    return model.Result(
        model.DeviceId(found.driver or "", found.pool or "", found.device or ""),
        bool(found.admin_access),
        found.share_id is not None,
        tuple(sorted(fields.read_amounts(found.consumed_capacity, at).items())),
    )


def _read_binding(
    found: resource.Allocation, results: Sequence[resource.DeviceResult], status: resource.ResourceClaimStatus
) -> tuple[bool, float | None]:
    """Has a device failed to become ready, and since when does the claim wait for its devices to be?

    Devices are looked at in their order. The first that is not ready decides: what others say is not looked at.
    """
    for result in results:
        if not result.binding_conditions:
            continue
        conditions = _find_conditions(result, status)
        if any(conditions.get(name) == "True" for name in result.binding_failure_conditions or ()):
            return True, None
        if not all(conditions.get(name) == "True" for name in result.binding_conditions):
            return False, meta.seconds(found.allocation_timestamp)
    return False, None


def _find_conditions(result: resource.DeviceResult, status: resource.ResourceClaimStatus) -> dict[str, str]:
    """What the driver said of a device: the first condition of each type counts."""
    device = (result.driver, result.pool, result.device)
    said = next((one for one in status.devices or () if (one.driver, one.pool, one.device) == device), None)
    conditions: dict[str, str] = {}
    for condition in (said.conditions if said is not None else None) or ():
        conditions.setdefault(condition.type or "", condition.status or "")
    return conditions


def complain_of_selectors(found: Iterable[SelectorError]) -> tuple[errors.InvalidObject, ...]:
    """Selectors that cannot be evaluated, as complaints about the claims and classes that they are of."""
    return tuple(_complain_of_selector(one) for one in found)


def _complain_of_selector(found: SelectorError) -> errors.InvalidObject:
    kind = "ResourceClaim" if isinstance(found.owner, model.ClaimKey) else "DeviceClass"
    request = f"devices.requests[{found.request}]." if found.request else ""
    at = f"spec.{request}selectors[{found.position}].cel.expression"
    return errors.InvalidObject(
        kind, str(found.owner), at, found.expression, f"an expression that can be evaluated: {found.error}"
    )


read_slice = _complaining("ResourceSlice", _read_slice)
read_taint_rule = _complaining("DeviceTaintRule", _read_taint_rule)
read_class = _complaining("DeviceClass", _read_class)
read_claim = _complaining("ResourceClaim", _read_claim)
