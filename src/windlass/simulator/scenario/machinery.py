"""Groups of a scenario as the world knows them: one per zone."""

from typing import Any

from windlass.kube import quantity
from windlass.simulator.scenario import checking, model
from windlass.simulator.world import groups

Json = dict[str, Any]

_PODS = "110"


def make_groups(scenario: model.Scenario) -> list[groups.Group]:
    return [_make(group, zone) for group in scenario.groups for zone in group.zones]


def _make(group: model.Group, zone: str) -> groups.Group:
    capacity = {name: str(quantity.read(str(amount))) for name, amount in group.capacity.items()}
    capacity.setdefault("pods", _PODS)
    return groups.Group(
        checking.name_in(group, zone),
        group.name,
        zone,
        group.min,
        group.max,
        group.min if group.initial is None else group.initial,
        capacity,
        {name: _less(amount, group.reserved.get(name)) for name, amount in capacity.items()},
        group.price,
        group.labels,
        tuple(_taint(taint) for taint in group.taints),
        group.options,
        group.boot.delay,
        group.ready.delay,
        group.stop.delay,
        group.failure_rate,
        group.unready_rate,
        group.lifetime.delay if group.lifetime is not None else None,
        group.remediate_after,
    )


def _less(amount: str, reserved: str | int | float | None) -> str:
    if reserved is None:
        return amount
    left = quantity.read(amount).nano - quantity.read(str(reserved)).nano
    # In thousandths: exact for CPU and for whole bytes.
    return str(quantity.read(f"{max(left, 0) // 10**6}m"))


def _taint(taint: model.Taint) -> Json:
    return {"key": taint.key, "effect": taint.effect, **({"value": taint.value} if taint.value else {})}
