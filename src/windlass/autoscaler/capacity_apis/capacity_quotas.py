"""CapacityQuotas: informer, reader and status controller (validity, and what matching nodes use)."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from windlass import clock, quantity, selectors
from windlass.autoscaler import informer_sinks
from windlass.autoscaler.capacity_apis.provisioning_requests import NotifyingSinkFactory
from windlass.engine.model import facts, scale_up_status
from windlass.engine.scale_up import quotas
from windlass.kube import client, errors, fields, informers, resources, time_formats
from windlass.kube.models import autoscaling, meta
from windlass.quantity import Quantity

_log = logging.getLogger(__name__)
QuotaObject = quotas.CapacityQuota[Quantity]
QuotaStatus = quotas.CapacityQuotaStatus[Quantity]


class CapacityQuotas:
    """All of them, as they are now."""

    def __init__(self) -> None:
        self._kept: informer_sinks.FactCache[QuotaObject] = informer_sinks.FactCache()
        self._enforced: tuple[tuple[QuotaObject, ...], tuple[scale_up_status.Quota, ...]] = ((), ())

    def make_informers(
        self, api: client.Client, behind: informer_sinks.ChangeBuffer, heard: NotifyingSinkFactory
    ) -> Iterator[informers.Informer[Any]]:
        sink = heard(informer_sinks.plain_sink(self._kept, read_quota, behind), "CapacityQuota")
        yield informers.Informer(api, resources.CAPACITY_QUOTAS, sink)

    def observe(self) -> tuple[scale_up_status.Quota, ...]:
        """What is enforced: those whose status says that they are valid. The same object while none changes."""
        known, enforced = self._enforced
        if self._kept.all is not known:
            found = (quotas.make_enforced_quota(one) for one in self._kept.all)
            enforced = tuple(one for one in found if one is not None)
            self._enforced = self._kept.all, enforced
        return enforced

    def find_changes(self, nodes: Sequence[facts.Node], now_s: float) -> list[tuple[QuotaObject, QuotaStatus]]:
        """Quotas whose status should be another."""
        counted = [_to_quota_node(node) for node in nodes]
        found = ((one, _next_status(one, counted, now_s)) for one in self._kept.all)
        return [(one, status) for one, status in found if status != one.status]


async def update_quota_statuses(
    api: client.Client, known: CapacityQuotas, nodes: Iterable[facts.Node], now_s: float
) -> None:
    """Write every status that is not as it should be. One that cannot be written is tried the next time."""
    for quota, status in known.find_changes(list(nodes), now_s):
        try:
            patch = {"status": quota_status_to_json(status)}
            await api.merge_patch(resources.CAPACITY_QUOTAS, quota.name, patch, subresource="status")
        except errors.KubeError as error:
            _log.warning("CapacityQuota %s: its status cannot be written: %s", quota.name, error)


async def run_quota_controller(
    api: client.Client,
    known: CapacityQuotas,
    nodes_now: Callable[[], Sequence[facts.Node]],
    time: clock.Clock,
    every_s: float,
) -> None:
    """Until cancelled. `nodes_now` finds the nodes that exist."""
    while True:
        try:
            await update_quota_statuses(api, known, nodes_now(), time.now_s())
        except Exception:
            _log.exception("the status of CapacityQuotas cannot be kept")
        await time.sleep(every_s)


def read_quota(found: autoscaling.CapacityQuota) -> QuotaObject:
    """InvalidObject if an amount cannot be read."""
    spec, metadata = found.spec or autoscaling.CapacityQuotaSpec(), found.meta
    try:
        limits = _read_amounts((spec.limits.resources if spec.limits else None) or {}, "spec.limits.resources")
        return quotas.CapacityQuota(
            metadata.name or "",
            limits,
            _read_selector(spec.selector),
            metadata.generation or 0,
            _read_status(found.status),
        )
    except fields.InvalidField as error:
        raise error.of("CapacityQuota", metadata.key) from error


def _read_selector(found: meta.LabelSelector | None) -> selectors.UnparsedLabelSelector | None:
    if found is None:
        return None
    expressions = tuple(
        selectors.MatchExpression(one.key or "", one.operator or "", tuple(one.values or ()))
        for one in found.match_expressions or ()
    )
    return selectors.UnparsedLabelSelector(found.match_labels or {}, expressions)


def _read_status(found: autoscaling.CapacityQuotaStatus | None) -> QuotaStatus:
    if found is None:
        return quotas.CapacityQuotaStatus()
    said = tuple(
        quotas.QuotaCondition(
            one.type or "",
            one.status or "",
            one.reason or "",
            one.message or "",
            one.observed_generation or 0,
            meta.seconds(one.last_transition_time) or 0.0,
        )
        for one in found.conditions or ()
    )
    used = None if found.used is None else _read_amounts(found.used.resources or {}, "status.used.resources")
    return quotas.CapacityQuotaStatus(found.observed_generation or 0, said, used)


def _read_amounts(found: meta.Amounts, at: str) -> dict[str, Quantity]:
    return {name: fields.read_quantity(value, f"{at}[{name}]") for name, value in found.items()}


def _to_quota_node(node: facts.Node) -> quotas.QuotaNode[Quantity]:
    """Of cpu, the engine knows thousandths. Bytes are told in powers of two."""
    unit, family = {facts.CPU: quantity.MILLI}, dict.fromkeys((facts.MEMORY, facts.EPHEMERAL_STORAGE), "binary")
    capacity = {
        name: Quantity(amount * unit.get(name, quantity.NANO), family.get(name, "decimal"))
        for name, amount in node.capacity
    }
    return quotas.QuotaNode(node.name, node.labels, capacity)


def _next_status(quota: QuotaObject, nodes: Sequence[quotas.QuotaNode[Quantity]], now_s: float) -> QuotaStatus:
    """The status to be. Amounts that mean the same are the same, however they are spelled."""
    status = quotas.update_status(quota, nodes, lambda whole: Quantity(whole * quantity.NANO), float(int(now_s)))
    before = quota.status.used
    if status.used is not None and before is not None and status.used.keys() == before.keys():
        used = {name: before[name] if before[name].nano == now.nano else now for name, now in status.used.items()}
        status = replace(status, used=used)
    return status


def quota_status_to_json(status: QuotaStatus) -> dict[str, Any]:
    spelled: dict[str, Any] = {
        "observedGeneration": status.observed_generation,
        "conditions": [
            {
                "type": one.type,
                "status": one.status,
                "reason": one.reason,
                "message": one.message,
                "observedGeneration": one.observed_generation,
                "lastTransitionTime": time_formats.format_time(one.since_s),
            }
            for one in status.conditions
        ],
    }
    if status.used is not None:
        spelled["used"] = {"resources": {name: str(amount) for name, amount in status.used.items()}}
    return spelled
