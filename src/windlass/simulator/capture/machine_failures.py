"""Machine failures: what a history shows of zones that failed, capacity that ran out, and machines that were lost."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from windlass.simulator.capture.cluster_history import ClusterHistory, GroupHistory, MachineHistory

Step = dict[str, Any]

_TOGETHER_S = 40.0
"""Nodes that become unready within this time fail together."""

_LEAST_OUTAGE = 2
"""Nodes whose failure at once, with no other left in their zone, is an outage of the zone."""


def list_failures(history: ClusterHistory, names: dict[str, str]) -> list[Step]:
    """Steps of a timeline; times are seconds since the beginning. `names`: of groups, by id."""
    outages = list(_find_outages(history))
    steps: list[Step] = [
        {"at": from_s - history.begin_s, "do": "outage", "zone": zone, "for": until_s - from_s}
        for zone, from_s, until_s in outages
    ]
    for id_, group in history.groups.items():
        dark = [(from_s, until_s) for zone, from_s, until_s in outages if zone == group.zone]
        steps += _list_unready(history, names[id_], group, dark)
        steps += _list_stock_outs(history, names[id_], group, dark)
    return _merge([step for step in steps if step["at"] >= 0.0])


def _merge(steps: list[Step]) -> list[Step]:
    """Steps that differ in their count alone, as one."""
    merged: dict[tuple[object, ...], Step] = {}
    for step in steps:
        same = tuple((key, round(value, 1) if isinstance(value, float) else value)
                     for key, value in step.items() if key != "count")  # fmt: skip
        if same in merged and "count" in step:
            merged[same]["count"] += step["count"]
        else:
            merged[same] = step
    return list(merged.values())


def is_stuck(machine: MachineHistory) -> bool:
    """Did it get an instance that never registered a node?"""
    return machine.registered_s is None and machine.gone_s is not None and machine.has_id


def _find_outages(history: ClusterHistory) -> Iterator[tuple[str, float, float]]:
    by_zone: dict[str, list[MachineHistory]] = defaultdict(list)
    for group in history.groups.values():
        by_zone[group.zone] += group.machines
    for zone, machines in by_zone.items():
        failed = sorted(
            (from_s, until_s if until_s is not None else machine.gone_s or history.end_s)
            for machine in machines
            for from_s, until_s in machine.unready
        )
        while failed:
            from_s = failed[0][0]
            together = [one for one in failed if one[0] <= from_s + _TOGETHER_S]
            failed = failed[len(together) :]
            ready = sum(1 for machine in machines if _is_ready_at(machine, from_s))
            if len(together) >= max(_LEAST_OUTAGE, ready):
                yield zone, from_s, max(until_s for _, until_s in together)


def _is_ready_at(machine: MachineHistory, at_s: float) -> bool:
    """Was its node ready, and not about to be removed?"""
    end_s = min(machine.gone_s or float("inf"), machine.stopping_s or float("inf"))
    return machine.ready_s is not None and machine.ready_s <= at_s < end_s


def _list_unready(
    history: ClusterHistory, name: str, group: GroupHistory, dark: list[tuple[float, float]]
) -> Iterator[Step]:
    for machine in group.machines:
        for from_s, until_s in machine.unready:
            if any(begin_s <= from_s <= end_s for begin_s, end_s in dark):
                continue
            at_s = from_s - history.begin_s
            if until_s is None and machine.gone_s is not None and machine.stopping_s is None:
                yield {"at": at_s, "do": "vanish", "group": name, "count": 1}
            else:
                end_s = until_s or machine.gone_s or history.end_s
                yield {"at": at_s, "do": "unready", "group": name, "count": 1, "for": end_s - from_s}


def _list_stock_outs(
    history: ClusterHistory, name: str, group: GroupHistory, dark: list[tuple[float, float]]
) -> Iterator[Step]:
    """Times from the first to the last of consecutive machines that got no instance until they were given up."""
    from_s = until_s = None
    for machine in group.machines:
        is_refused = machine.registered_s is None and machine.gone_s is not None and not machine.has_id
        if any(begin_s <= machine.requested_s <= end_s for begin_s, end_s in dark) or machine.is_initial:
            continue
        if is_refused:
            assert machine.gone_s is not None
            from_s = machine.requested_s if from_s is None else from_s
            until_s = max(until_s or 0.0, machine.gone_s)
        elif from_s is not None and machine.registered_s is not None:
            yield _stock_out(history, name, from_s, until_s)
            from_s = until_s = None
    if from_s is not None:
        yield _stock_out(history, name, from_s, until_s)


def _stock_out(history: ClusterHistory, name: str, from_s: float, until_s: float | None) -> Step:
    assert until_s is not None
    # A second earlier: the machines were requested when there was no capacity any more.
    at_s = max(from_s - history.begin_s - 1.0, 0.0)
    return {"at": at_s, "do": "stock-out", "group": name, "for": until_s - from_s + 1.0}
