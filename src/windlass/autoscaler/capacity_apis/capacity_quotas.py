"""CapacityQuotas: informer, reader and status controller (validity, and usage of matching nodes)."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from windlass import clock, quantity, selectors
from windlass.autoscaler import informer_sinks
from windlass.autoscaler.capacity_apis.provisioning_requests import NotifyingSinkFactory
from windlass.engine import resource_quotas
from windlass.engine.model import facts, scale_up_status
from windlass.kube import client, errors, fields, informers, resources, time_formats
from windlass.kube.models import autoscaling, meta
from windlass.quantity import Quantity

_log = logging.getLogger(__name__)
QuotaObject = resource_quotas.CapacityQuota[Quantity]
QuotaStatus = resource_quotas.CapacityQuotaStatus[Quantity]


class CapacityQuotas:
    """All CapacityQuotas, kept current by an informer."""

    def __init__(self) -> None:
        self._kept: informer_sinks.FactCache[QuotaObject] = informer_sinks.FactCache()
        self._enforced: tuple[tuple[QuotaObject, ...], tuple[scale_up_status.Quota, ...]] = ((), ())

    def make_informers(
        self, api: client.Client, behind: informer_sinks.ChangeBuffer, heard: NotifyingSinkFactory
    ) -> Iterator[informers.Informer[Any]]:
        sink = heard(informer_sinks.plain_sink(self._kept, read_quota, behind), "CapacityQuota")
        yield informers.Informer(api, resources.CAPACITY_QUOTAS, sink)

    def observe(self) -> tuple[scale_up_status.Quota, ...]:
        """Return the quotas whose status is valid; only they are enforced. The same object while none changes."""
        known, enforced = self._enforced
        if self._kept.all is not known:
            quotas = (resource_quotas.make_enforced_quota(capacity_quota) for capacity_quota in self._kept.all)
            enforced = tuple(quota for quota in quotas if quota is not None)
            self._enforced = self._kept.all, enforced
        return enforced

    def find_changes(self, nodes: Sequence[facts.Node], now_s: float) -> list[tuple[QuotaObject, QuotaStatus]]:
        """Return quotas whose status must change."""
        counted = [_to_quota_node(node) for node in nodes]
        found = ((capacity_quota, _next_status(capacity_quota, counted, now_s)) for capacity_quota in self._kept.all)
        return [(quota, status) for quota, status in found if status != quota.status]


async def update_quota_statuses(
    api: client.Client, capacity_quotas: CapacityQuotas, nodes: Iterable[facts.Node], now_s: float
) -> None:
    """Write every changed status. A failed write is retried in the next run."""
    for quota, status in capacity_quotas.find_changes(list(nodes), now_s):
        try:
            patch = {"status": quota_status_to_json(status)}
            await api.merge_patch(resources.CAPACITY_QUOTAS, quota.name, patch, subresource="status")
        except errors.KubeError as error:
            _log.warning("failed to write CapacityQuota status: quota=%s error=%s", quota.name, error)


async def run_quota_controller(
    api: client.Client,
    capacity_quotas: CapacityQuotas,
    nodes_now: Callable[[], Sequence[facts.Node]],
    time: clock.Clock,
    every_s: float,
) -> None:
    """Run the CapacityQuota status controller until cancelled. `nodes_now` returns the existing nodes."""
    while True:
        try:
            await update_quota_statuses(api, capacity_quotas, nodes_now(), time.now_s())
        except Exception:
            _log.exception("failed to update CapacityQuota statuses: retry_s=%g", every_s)
        await time.sleep(every_s)


def read_quota(capacity_quota: autoscaling.CapacityQuota) -> QuotaObject:
    """Read a CapacityQuota. InvalidObject if an amount cannot be read."""
    spec, metadata = capacity_quota.spec or autoscaling.CapacityQuotaSpec(), capacity_quota.meta
    try:
        limits = _read_amounts((spec.limits.resources if spec.limits else None) or {}, "spec.limits.resources")
        return resource_quotas.CapacityQuota(
            metadata.name or "",
            limits,
            _read_selector(spec.selector),
            metadata.generation or 0,
            _read_status(capacity_quota.status),
        )
    except fields.InvalidField as error:
        raise error.of("CapacityQuota", metadata.key) from error


def _read_selector(label_selector: meta.LabelSelector | None) -> selectors.UnparsedLabelSelector | None:
    if label_selector is None:
        return None
    expressions = tuple(
        selectors.MatchExpression(requirement.key or "", requirement.operator or "", tuple(requirement.values or ()))
        for requirement in label_selector.match_expressions or ()
    )
    return selectors.UnparsedLabelSelector(label_selector.match_labels or {}, expressions)


def _read_status(capacity_quota_status: autoscaling.CapacityQuotaStatus | None) -> QuotaStatus:
    if capacity_quota_status is None:
        return resource_quotas.CapacityQuotaStatus()
    quota_conditions = tuple(
        resource_quotas.QuotaCondition(
            condition.type or "",
            condition.status or "",
            condition.reason or "",
            condition.message or "",
            condition.observed_generation or 0,
            meta.seconds(condition.last_transition_time) or 0.0,
        )
        for condition in capacity_quota_status.conditions or ()
    )
    used = (
        None
        if capacity_quota_status.used is None
        else _read_amounts(capacity_quota_status.used.resources or {}, "status.used.resources")
    )
    return resource_quotas.CapacityQuotaStatus(capacity_quota_status.observed_generation or 0, quota_conditions, used)


def _read_amounts(amounts: meta.Amounts, at: str) -> dict[str, Quantity]:
    return {name: fields.read_quantity(value, f"{at}[{name}]") for name, value in amounts.items()}


def _to_quota_node(node: facts.Node) -> resource_quotas.QuotaNode[Quantity]:
    """Convert a node to amounts of quotas: the engine's millicores to cores, bytes to binary suffixes."""
    unit, family = {facts.CPU: quantity.MILLI}, dict.fromkeys((facts.MEMORY, facts.EPHEMERAL_STORAGE), "binary")
    capacity = {
        name: Quantity(amount * unit.get(name, quantity.NANO), family.get(name, "decimal"))
        for name, amount in node.capacity
    }
    return resource_quotas.QuotaNode(node.name, node.labels, capacity)


def _next_status(quota: QuotaObject, nodes: Sequence[resource_quotas.QuotaNode[Quantity]], now_s: float) -> QuotaStatus:
    """Return the desired status. Equal amounts are equal however they are written."""
    status = resource_quotas.update_status(
        quota, nodes, lambda whole: Quantity(whole * quantity.NANO), float(int(now_s))
    )
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
                "type": quota_condition.type,
                "status": quota_condition.status,
                "reason": quota_condition.reason,
                "message": quota_condition.message,
                "observedGeneration": quota_condition.observed_generation,
                "lastTransitionTime": time_formats.format_time(quota_condition.since_s),
            }
            for quota_condition in status.conditions
        ],
    }
    if status.used is not None:
        spelled["used"] = {"resources": {name: str(amount) for name, amount in status.used.items()}}
    return spelled
