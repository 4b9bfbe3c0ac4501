"""Actuator: carries out plans with bounded concurrency and returns the result of each instruction.

    groups first      in order up to the first refusal, or all together
    then nodes        all changes of one node in one write
    then machines     those of one group at once
    then requests     conditions of ProvisioningRequests

Each change reads the node, modifies it and writes it back with its resourceVersion; after a conflict it starts again.
Drains are ordered step by step by the engine's drain loop; evictions are queued in `evictor`, and nothing waits for
them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from windlass import errors
from windlass.autoscaler.capacity_apis import provisioning_requests
from windlass.autoscaler.evictor import Evictor
from windlass.engine import taints
from windlass.engine.capacity_apis import provisioning_request_queue
from windlass.engine.model import facts, node_groups, plan
from windlass.engine.model.plan import PlanResult
from windlass.kube import client, resources
from windlass.kube import errors as kube_errors
from windlass.providers import base

NodeChange: TypeAlias = plan.SetTaint | plan.RemoveTaint | plan.Cordon

_NODE_RESOURCE = resources.NODES.untyped()

_CONFLICT_RETRY_S = 0.75

_CONFLICT_TIMEOUT_S = 5.0

NodeObject: TypeAlias = dict[str, Any]


async def update_node(api: client.Client, name: str, changes: Sequence[NodeChange], uid: str = "") -> None:
    """Apply changes to a node, unless they are applied already. A node that is gone needs none.

    `uid`: uid of the node that the changes were decided for, if known. A different node of the same name is left alone.
    """
    until_s = api.clock.monotonic_s() + _CONFLICT_TIMEOUT_S
    while True:
        try:
            node = await api.get(_NODE_RESOURCE, name)
            if uid and node["metadata"].get("uid") != uid:
                return
            if apply_node_changes(node, changes):
                await api.update(_NODE_RESOURCE, node)
            return
        except kube_errors.NotFound:
            return
        except kube_errors.Conflict:
            if api.clock.monotonic_s() >= until_s:
                raise
        await api.clock.sleep(_CONFLICT_RETRY_S)


def apply_node_changes(node: NodeObject, changes: Sequence[NodeChange]) -> bool:
    """Apply changes to a node object, in order. Return whether the object differs now."""
    spec = node.setdefault("spec", {})
    before = (list(spec.get("taints") or ()), bool(spec.get("unschedulable")))
    for item in changes:
        _APPLY[type(item)](spec, item)
    return (list(spec.get("taints") or ()), bool(spec.get("unschedulable"))) != before


def _set_taint(spec: NodeObject, order: plan.SetTaint) -> None:
    others = [item for item in spec.get("taints") or () if (item["key"], item["effect"]) != (order.key, order.effect)]
    spec["taints"] = [*others, {"key": order.key, "value": order.value, "effect": order.effect}]


def _remove_taint(spec: NodeObject, order: plan.RemoveTaint) -> None:
    spec["taints"] = [item for item in spec.get("taints") or () if item["key"] != order.key]


def _cordon(spec: NodeObject, order: plan.Cordon) -> None:
    if order.cordoned:
        spec["unschedulable"] = True
    else:
        spec.pop("unschedulable", None)


_APPLY: dict[type, Callable[[NodeObject, Any], None]] = {
    plan.SetTaint: _set_taint,
    plan.RemoveTaint: _remove_taint,
    plan.Cordon: _cordon,
}

T = TypeVar("T")

_MAX_CONCURRENT_NODES = 5

_MAX_CONCURRENT_GROUPS = 10

_MAX_CONCURRENT_CONDITIONS = 10

_CONDITIONS_TIMEOUT_S = 2.0
"""Time limit for starting condition writes of one plan. At a few requests per second, hundreds of ProvisioningRequests
of one tenant would delay the next loop for all tenants; the next loop orders unwritten conditions again."""

_CANDIDATE_TAINT_STAYS_S = 30.0
"""Time after a resize during which DeletionCandidate taints of needed nodes are not removed. A node update makes
kube-scheduler retry all pending pods and write a condition for each, just when the API server creates their machines.
The taint is only a preference, and a skipped removal is ordered again."""

NOT_ATTEMPTED = "not tried: another group could not be raised"

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _PlanResultBuilder:
    done: list[plan.Instruction] = field(default_factory=list)
    failed: dict[plan.Instruction, str] = field(default_factory=dict)
    refused: dict[str, node_groups.InstanceError] = field(default_factory=dict)

    def build(self) -> PlanResult:
        return PlanResult(tuple(self.done), self.failed, self.refused)


class Actuator:
    """Executes plans on one cluster and its node groups."""

    def __init__(
        self,
        api: client.Client,
        provider: base.Provider,
        requests: provisioning_requests.ProvisioningRequests | None = None,
    ) -> None:
        self._api, self._provider, self._requests = api, provider, requests
        self._requests_api = api.with_own_rate_limit()
        """Separate rate limit for ProvisioningRequest conditions, so that they cannot delay node changes."""
        self.evictor: Evictor[Any] = Evictor(api)
        self._resized_s = float("-inf")
        """Monotonic time of the last resize."""
        self._unwritten: frozenset[tuple[str, str]] = frozenset()
        """ProvisioningRequests whose conditions could not be written the last time, as (namespace, name)."""

    async def resize(self, ordered: plan.Plan, in_parallel: bool) -> PlanResult:
        """Execute the node group instructions of a plan: reverts of failed scale-ups, then resizes.

        `in_parallel`: resize groups concurrently; a rejection affects only its own group. Otherwise resize in order and
        stop at the first rejection.
        """
        results = _PlanResultBuilder()
        for order in ordered:
            if isinstance(order, plan.ReduceTarget):
                await self._execute(results, [order], self._provider.reduce_target(order))
            elif isinstance(order, plan.DeleteInstances):
                await self._execute(results, [order], self._provider.delete_instances(order))
        raised = [order for order in ordered if isinstance(order, plan.Resize)]
        if in_parallel:
            await _for_each_limited(_MAX_CONCURRENT_GROUPS, raised, lambda order: self._resize_group(results, order))
            return results.build()
        for number, order in enumerate(raised):
            await self._resize_group(results, order)
            if results.refused:
                results.failed |= dict.fromkeys(raised[number + 1 :], NOT_ATTEMPTED)
                break
        return results.build()

    async def apply_changes(
        self, ordered: plan.Plan, find_node: Callable[[str], facts.Node | None], soft_taint_s: float = float("inf")
    ) -> PlanResult:
        """Execute the node and ProvisioningRequest instructions of a plan. `find_node` looks up a node by name.

        Soft taints come after other node changes. After `soft_taint_s` no further soft taint update starts: the next
        loop orders the rest again.
        """
        results = _PlanResultBuilder()
        by_node: dict[str, list[NodeChange]] = {}
        keeps_soft_taints = self._api.clock.monotonic_s() < self._resized_s + _CANDIDATE_TAINT_STAYS_S
        for order in ordered:
            if isinstance(order, plan.SetTaint | plan.RemoveTaint | plan.Cordon) and not (
                keeps_soft_taints and _removes_candidate_taint(order)
            ):
                by_node.setdefault(order.node, []).append(order)

        async def write(name: str, until_s: float = float("inf")) -> None:
            if self._api.clock.monotonic_s() < until_s:
                changes = by_node[name]
                await self._execute(results, changes, update_node(self._api, name, changes, _find_uid(name, find_node)))

        soft = [name for name, changes in by_node.items() if all(map(_is_soft_taint, changes))]
        await _for_each_limited(_MAX_CONCURRENT_NODES, [name for name in by_node if name not in soft], write)
        until_s = self._api.clock.monotonic_s() + soft_taint_s
        await _for_each_limited(_MAX_CONCURRENT_NODES, soft, lambda name: write(name, until_s))
        await self._delete_nodes(results, [order for order in ordered if isinstance(order, plan.DeleteNode)], find_node)
        await self._update_requests(results, ordered)
        return results.build()

    async def _update_requests(self, results: _PlanResultBuilder, ordered: plan.Plan) -> None:
        """Revert failed partial scale-ups, then write the conditions of ProvisioningRequests."""
        for order in ordered:
            if isinstance(order, plan.TakeBack):
                lower = plan.ReduceTarget(order.group, order.by, order.why, order.from_size)
                await self._execute(results, [order], self._provider.reduce_target(lower))
        until_s = self._api.clock.monotonic_s() + _CONDITIONS_TIMEOUT_S

        async def write(order: plan.ProvisioningRequestInstruction) -> None:
            if self._api.clock.monotonic_s() <= until_s:
                await self._execute(results, [order], self._write_request(order))

        answers = [order for order in ordered if isinstance(order, plan.SetConditions | plan.DeleteRequest)]
        await _for_each_limited(_MAX_CONCURRENT_CONDITIONS, sorted(answers, key=self._rank), write)
        self._unwritten = frozenset((order.namespace, order.name) for order in answers if order in results.failed)

    def _rank(self, order: plan.ProvisioningRequestInstruction) -> int:
        """Sort key of condition writes: rejections first, then Provisioned=True, deletions, and last those that failed
        before.
        """
        if (order.namespace, order.name) in self._unwritten:
            return 3
        if isinstance(order, plan.DeleteRequest):
            return 2
        return 1 - any(
            condition.type == provisioning_request_queue.PROVISIONED and condition.status == "True"
            for condition in order.conditions
        )

    async def _write_request(self, order: plan.ProvisioningRequestInstruction) -> None:
        if isinstance(order, plan.DeleteRequest):
            await provisioning_requests.delete_request(self._requests_api, order)
            return
        provisioning_request = await provisioning_requests.write_conditions(self._requests_api, order)
        if self._requests is not None:
            self._requests.note_written(order, provisioning_request)

    async def _resize_group(self, results: _PlanResultBuilder, order: plan.Resize) -> None:
        await self._execute(results, [order], self._provider.resize(order))
        self._resized_s = self._api.clock.monotonic_s()

    async def _delete_nodes(
        self,
        results: _PlanResultBuilder,
        orders: Sequence[plan.DeleteNode],
        find_node: Callable[[str], facts.Node | None],
    ) -> None:
        by_group: dict[str, list[plan.DeleteNode]] = {}
        for order in orders:
            by_group.setdefault(order.group, []).append(order)

        async def delete(group: str) -> Mapping[plan.Instruction, base.ProviderError]:
            nodes = [node for order in by_group[group] if (node := find_node(order.node)) is not None]
            refused = await self._provider.delete_nodes(group, nodes)
            return {order: refused[order.node] for order in by_group[group] if order.node in refused}

        await _for_each_limited(
            _MAX_CONCURRENT_GROUPS, by_group, lambda group: self._execute(results, by_group[group], delete(group))
        )

    async def _execute(
        self,
        results: _PlanResultBuilder,
        orders: Sequence[plan.Instruction],
        act: Awaitable[Mapping[plan.Instruction, base.ProviderError] | None],
    ) -> None:
        """Await one action and record its result for each instruction. `act` returns the rejected instructions.

        An unexpected error is recorded as well, so that a bug in one action does not stop the others.
        """
        try:
            refused = await act or {}
        except base.ProviderError as error:
            self._record_failure(results, orders, str(error), error.error)
        except errors.WindlassError as error:
            self._record_failure(
                results, orders, str(error), node_groups.InstanceError("Other", "apiCallError", str(error))
            )
        except Exception as error:
            _log.exception("instruction failed unexpectedly: instruction=%s", orders)
            self._record_failure(
                results, orders, repr(error), node_groups.InstanceError("Other", "internalError", repr(error))
            )
        else:
            results.done += [order for order in orders if order not in refused]
            for order, rejection in refused.items():
                self._record_failure(results, [order], str(rejection), rejection.error)

    def _record_failure(
        self,
        results: _PlanResultBuilder,
        orders: Sequence[plan.Instruction],
        message: str,
        error: node_groups.InstanceError,
    ) -> None:
        for order in orders:
            _log.warning("instruction failed: instruction=%s error=%s", order, message)
            results.failed[order] = message
            if isinstance(order, plan.Resize):
                results.refused[order.group] = error


def _find_uid(name: str, find_node: Callable[[str], facts.Node | None]) -> str:
    node = find_node(name)
    return "" if node is None else node.uid


def _removes_candidate_taint(order: NodeChange) -> bool:
    """Whether the instruction removes a DeletionCandidate taint."""
    return isinstance(order, plan.RemoveTaint) and order.key == taints.DELETION_CANDIDATE_KEY


def _is_soft_taint(order: NodeChange) -> bool:
    return isinstance(order, plan.SetTaint | plan.RemoveTaint) and order.key == taints.DELETION_CANDIDATE_KEY


def merge_results(first: PlanResult, then: PlanResult) -> PlanResult:
    """Merge the results of two parts of a plan."""
    return replace(
        first,
        done=first.done + then.done,
        failed={**first.failed, **then.failed},
        refused={**first.refused, **then.refused},
    )


async def _for_each_limited(limit: int, things: Iterable[T], act: Callable[[T], Awaitable[None]]) -> None:
    """Run an action for each item, at most `limit` at a time. A cancelled call starts no further action."""
    gate = asyncio.Semaphore(limit)

    async def pass_through(thing: T) -> None:
        async with gate:
            await act(thing)

    await asyncio.gather(*map(pass_through, things))
