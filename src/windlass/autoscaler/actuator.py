"""Actuator: carries out plans with bounded concurrency and returns the result of each instruction.

    groups first      in order up to the first refusal, or all together
    then nodes        all changes of one node in one write
    then machines     those of one group at once
    then requests     conditions of ProvisioningRequests

A node is read, changed and written back with its resourceVersion, and again after a conflict. Drains are ordered step
by step by `advance`; evictions go through `evictor`, and nothing waits for them.
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
from windlass.engine.capacity_apis import provisioning_conditions
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
    """Make these changes to a node, if they are not made already. A node that is gone needs none.

    `uid`: of the node that they were decided for, if it is known. Another one that came under its name is left alone.
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
    """Make these changes to a node, in their order. Whether anything is different now."""
    spec = node.setdefault("spec", {})
    before = (list(spec.get("taints") or ()), bool(spec.get("unschedulable")))
    for one in changes:
        _APPLY[type(one)](spec, one)
    return (list(spec.get("taints") or ()), bool(spec.get("unschedulable"))) != before


def _set_taint(spec: NodeObject, order: plan.SetTaint) -> None:
    others = [one for one in spec.get("taints") or () if (one["key"], one["effect"]) != (order.key, order.effect)]
    spec["taints"] = [*others, {"key": order.key, "value": order.value, "effect": order.effect}]


def _remove_taint(spec: NodeObject, order: plan.RemoveTaint) -> None:
    spec["taints"] = [one for one in spec.get("taints") or () if one["key"] != order.key]


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
"""How long a plan may begin to answer ProvisioningRequests. With a few requests a second to the API server, hundreds of
them, all of one tenant, would keep everyone's next loop waiting; what is not written is ordered again by that loop."""

_CANDIDATE_TAINT_STAYS_S = 30.0
"""How long after groups were raised nodes keep the mark of a candidate, though they are needed again. A node that
changes for the better makes the scheduler try all waiting pods again, and say so of each, just when the API server
makes their machines. The mark is no more than a preference, and what is not done is ordered again."""

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
    """Acts on one cluster and its node groups."""

    def __init__(
        self,
        api: client.Client,
        provider: base.Provider,
        requests: provisioning_requests.ProvisioningRequests | None = None,
    ) -> None:
        self._api, self._provider, self._requests = api, provider, requests
        self._answering = api.with_own_rate_limit()
        """For answers to ProvisioningRequests: however many there are, no node that is to go waits for them."""
        self.evictor: Evictor[Any] = Evictor(api)
        self._raised_s = float("-inf")
        """When a group was last raised, monotonic."""
        self._unwritten: frozenset[tuple[str, str]] = frozenset()
        """ProvisioningRequests whose answers could not be written last time, by namespace and name."""

    async def resize(self, ordered: plan.Plan, together: bool) -> PlanResult:
        """Carry out what a plan says of groups: raise them, and take back what did not come.

        `together`: groups are raised at the same time, and a refusal concerns none but the group itself. Otherwise one
        after the other; after a refusal the others are not tried.
        """
        tally = _PlanResultBuilder()
        for order in ordered:
            if isinstance(order, plan.ReduceTarget):
                await self._try(tally, [order], self._provider.reduce_target(order))
            elif isinstance(order, plan.DeleteInstances):
                await self._try(tally, [order], self._provider.delete_instances(order))
        raised = [order for order in ordered if isinstance(order, plan.Resize)]
        if together:
            await _for_each_limited(_MAX_CONCURRENT_GROUPS, raised, lambda order: self._raise(tally, order))
            return tally.build()
        for number, order in enumerate(raised):
            await self._raise(tally, order)
            if tally.refused:
                tally.failed |= dict.fromkeys(raised[number + 1 :], NOT_ATTEMPTED)
                break
        return tally.build()

    async def apply_changes(
        self, ordered: plan.Plan, known: Callable[[str], facts.Node | None], soft_taint_s: float = float("inf")
    ) -> PlanResult:
        """Carry out what a plan says of nodes and requests. `known` finds a node by its name.

        Soft taints come after other changes of nodes. After `soft_taint_s` no more of them are begun: the next loop
        orders the rest again.
        """
        tally = _PlanResultBuilder()
        by_node: dict[str, list[NodeChange]] = {}
        marks_stay = self._api.clock.monotonic_s() < self._raised_s + _CANDIDATE_TAINT_STAYS_S
        for order in ordered:
            if isinstance(order, plan.SetTaint | plan.RemoveTaint | plan.Cordon) and not (
                marks_stay and _removes_candidate_taint(order)
            ):
                by_node.setdefault(order.node, []).append(order)

        async def write(name: str, until_s: float = float("inf")) -> None:
            if self._api.clock.monotonic_s() < until_s:
                changes = by_node[name]
                await self._try(tally, changes, update_node(self._api, name, changes, _find_uid(name, known)))

        soft = [name for name, changes in by_node.items() if all(map(_is_soft_taint, changes))]
        await _for_each_limited(_MAX_CONCURRENT_NODES, [name for name in by_node if name not in soft], write)
        until_s = self._api.clock.monotonic_s() + soft_taint_s
        await _for_each_limited(_MAX_CONCURRENT_NODES, soft, lambda name: write(name, until_s))
        await self._delete(tally, [order for order in ordered if isinstance(order, plan.DeleteNode)], known)
        await self._answer(tally, ordered)
        return tally.build()

    async def _answer(self, tally: _PlanResultBuilder, ordered: plan.Plan) -> None:
        """Lower what was raised in vain, and tell those who asked."""
        for order in ordered:
            if isinstance(order, plan.TakeBack):
                lower = plan.ReduceTarget(order.group, order.by, order.why, order.from_size)
                await self._try(tally, [order], self._provider.reduce_target(lower))
        until_s = self._api.clock.monotonic_s() + _CONDITIONS_TIMEOUT_S

        async def write(order: plan.ProvisioningRequestInstruction) -> None:
            if self._api.clock.monotonic_s() <= until_s:
                await self._try(tally, [order], self._write(order))

        answers = [order for order in ordered if isinstance(order, plan.SetConditions | plan.DeleteRequest)]
        await _for_each_limited(_MAX_CONCURRENT_CONDITIONS, sorted(answers, key=self._rank), write)
        self._unwritten = frozenset((order.namespace, order.name) for order in answers if order in tally.failed)

    def _rank(self, order: plan.ProvisioningRequestInstruction) -> int:
        """Which answers are written first: room that is given away, and last those whose writing failed before."""
        if (order.namespace, order.name) in self._unwritten:
            return 3
        if isinstance(order, plan.DeleteRequest):
            return 2
        return 1 - any(
            one.type == provisioning_conditions.PROVISIONED and one.status == "True" for one in order.conditions
        )

    async def _write(self, order: plan.ProvisioningRequestInstruction) -> None:
        if isinstance(order, plan.DeleteRequest):
            await provisioning_requests.delete_request(self._answering, order)
            return
        found = await provisioning_requests.write_conditions(self._answering, order)
        if self._requests is not None:
            self._requests.note_written(order, found)

    async def _raise(self, tally: _PlanResultBuilder, order: plan.Resize) -> None:
        await self._try(tally, [order], self._provider.resize(order))
        self._raised_s = self._api.clock.monotonic_s()

    async def _delete(
        self, tally: _PlanResultBuilder, orders: Sequence[plan.DeleteNode], known: Callable[[str], facts.Node | None]
    ) -> None:
        by_group: dict[str, list[plan.DeleteNode]] = {}
        for order in orders:
            by_group.setdefault(order.group, []).append(order)

        async def delete(group: str) -> Mapping[plan.Instruction, base.ProviderError]:
            found = [node for order in by_group[group] if (node := known(order.node)) is not None]
            refused = await self._provider.delete_nodes(group, found)
            return {order: refused[order.node] for order in by_group[group] if order.node in refused}

        await _for_each_limited(
            _MAX_CONCURRENT_GROUPS, by_group, lambda group: self._try(tally, by_group[group], delete(group))
        )

    async def _try(
        self,
        tally: _PlanResultBuilder,
        orders: Sequence[plan.Instruction],
        act: Awaitable[Mapping[plan.Instruction, base.ProviderError] | None],
    ) -> None:
        """Do it, and note what became of it: `act` returns what was refused of it, if not all was.

        A bug in one thing keeps no other from being done.
        """
        try:
            refused = await act or {}
        except base.ProviderError as error:
            self._note(tally, orders, str(error), error.error)
        except errors.WindlassError as error:
            self._note(tally, orders, str(error), node_groups.InstanceError("Other", "apiCallError", str(error)))
        except Exception as error:
            _log.exception("%s failed", orders)
            self._note(tally, orders, repr(error), node_groups.InstanceError("Other", "internalError", repr(error)))
        else:
            tally.done += [order for order in orders if order not in refused]
            for order, why in refused.items():
                self._note(tally, [order], str(why), why.error)

    def _note(
        self, tally: _PlanResultBuilder, orders: Sequence[plan.Instruction], said: str, why: node_groups.InstanceError
    ) -> None:
        for order in orders:
            _log.warning("%s: %s", order, said)
            tally.failed[order] = said
            if isinstance(order, plan.Resize):
                tally.refused[order.group] = why


def _find_uid(name: str, known: Callable[[str], facts.Node | None]) -> str:
    node = known(name)
    return "" if node is None else node.uid


def _removes_candidate_taint(order: NodeChange) -> bool:
    """Does it take the mark of a candidate for removal away?"""
    return isinstance(order, plan.RemoveTaint) and order.key == taints.DELETION_CANDIDATE_KEY


def _is_soft_taint(order: NodeChange) -> bool:
    return isinstance(order, plan.SetTaint | plan.RemoveTaint) and order.key == taints.DELETION_CANDIDATE_KEY


def merge_results(first: PlanResult, then: PlanResult) -> PlanResult:
    """What became of two parts of a plan."""
    return replace(
        first,
        done=first.done + then.done,
        failed={**first.failed, **then.failed},
        refused={**first.refused, **then.refused},
    )


async def _for_each_limited(limit: int, things: Iterable[T], act: Callable[[T], Awaitable[None]]) -> None:
    """Do it with each, so many at a time. What is not begun when all is cancelled has never been."""
    gate = asyncio.Semaphore(limit)

    async def pass_through(thing: T) -> None:
        async with gate:
            await act(thing)

    await asyncio.gather(*map(pass_through, things))
