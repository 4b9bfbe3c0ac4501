"""The actor: carries out plans, a few things at a time, and says what became of each.

    groups first      one after the other up to the first refusal, or all together
    then nodes        all that is wanted of one node at once
    then machines     those of one group at once
    then requests     what was decided about them

What the plan says of draining is not done here: `advance` orders the steps of a drain, one plan after another.
Evictions go through `evictor`, and nothing waits for them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from windlass import errors
from windlass.autoscaler.act import nodes
from windlass.autoscaler.act.evictor import Evictor
from windlass.autoscaler.act.outcome import Outcome
from windlass.autoscaler.batch import answering, following
from windlass.engine import facts, plan, taints
from windlass.engine.provisioning import conditions
from windlass.kube import client
from windlass.providers import base

T = TypeVar("T")

_NODES_AT_ONCE = 5
_GROUPS_AT_ONCE = 10
_ANSWERS_AT_ONCE = 10
_ANSWERING_S = 2.0
"""How long a plan may begin to answer ProvisioningRequests. With a few requests a second to the API server, hundreds of
them, all of one tenant, would keep everyone's next loop waiting; what is not written is ordered again by that loop."""

_MARKS_STAY_S = 30.0
"""How long after groups were raised nodes keep the mark of a candidate, though they are needed again. A node that
changes for the better makes the scheduler try all waiting pods again, and say so of each, just when the API server
makes their machines. The mark is no more than a preference, and what is not done is ordered again."""

NOT_TRIED = "not tried: another group could not be raised"
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Tally:
    done: list[plan.Instruction] = field(default_factory=list)
    failed: dict[plan.Instruction, str] = field(default_factory=dict)
    refused: dict[str, facts.InstanceError] = field(default_factory=dict)

    def close(self) -> Outcome:
        return Outcome(tuple(self.done), self.failed, self.refused)


class Actor:
    """Acts on one cluster and its node groups."""

    def __init__(self, api: client.Client, provider: base.Provider, requests: following.Requests | None = None) -> None:
        self._api, self._provider, self._requests = api, provider, requests
        self._answering = api.limited_apart()
        """For answers to ProvisioningRequests: however many there are, no node that is to go waits for them."""
        self.evictor: Evictor[Any] = Evictor(api)
        self._raised_s = float("-inf")
        """When a group was last raised, monotonic."""
        self._unwritten: frozenset[tuple[str, str]] = frozenset()
        """ProvisioningRequests whose answers could not be written last time, by namespace and name."""

    async def resize(self, ordered: plan.Plan, together: bool) -> Outcome:
        """Carry out what a plan says of groups: raise them, and take back what did not come.

        `together`: groups are raised at the same time, and a refusal concerns none but the group itself. Otherwise one
        after the other; after a refusal the others are not tried.
        """
        tally = _Tally()
        for order in ordered:
            if isinstance(order, plan.ReduceTarget):
                await self._try(tally, [order], self._provider.reduce_target(order))
            elif isinstance(order, plan.DeleteInstances):
                await self._try(tally, [order], self._provider.delete_instances(order))
        raised = [order for order in ordered if isinstance(order, plan.Resize)]
        if together:
            await _each(_GROUPS_AT_ONCE, raised, lambda order: self._raise(tally, order))
            return tally.close()
        for number, order in enumerate(raised):
            await self._raise(tally, order)
            if tally.refused:
                tally.failed |= dict.fromkeys(raised[number + 1 :], NOT_TRIED)
                break
        return tally.close()

    async def change(
        self, ordered: plan.Plan, known: Callable[[str], facts.Node | None], soft_taint_s: float = float("inf")
    ) -> Outcome:
        """Carry out what a plan says of nodes and requests. `known` finds a node by its name.

        Soft taints come after other changes of nodes. After `soft_taint_s` no more of them are begun: the next loop
        orders the rest again.
        """
        tally = _Tally()
        by_node: dict[str, list[nodes.Change]] = {}
        marks_stay = self._api.clock.monotonic_s() < self._raised_s + _MARKS_STAY_S
        for order in ordered:
            if isinstance(order, plan.SetTaint | plan.RemoveTaint | plan.Cordon) and not (
                marks_stay and _unmarks(order)
            ):
                by_node.setdefault(order.node, []).append(order)

        async def write(name: str, until_s: float = float("inf")) -> None:
            if self._api.clock.monotonic_s() < until_s:
                changes = by_node[name]
                await self._try(tally, changes, nodes.change(self._api, name, changes, _find_uid(name, known)))

        soft = [name for name, changes in by_node.items() if all(map(_is_soft_taint, changes))]
        await _each(_NODES_AT_ONCE, [name for name in by_node if name not in soft], write)
        until_s = self._api.clock.monotonic_s() + soft_taint_s
        await _each(_NODES_AT_ONCE, soft, lambda name: write(name, until_s))
        await self._delete(tally, [order for order in ordered if isinstance(order, plan.DeleteNode)], known)
        await self._answer(tally, ordered)
        return tally.close()

    async def _answer(self, tally: _Tally, ordered: plan.Plan) -> None:
        """Lower what was raised in vain, and tell those who asked."""
        for order in ordered:
            if isinstance(order, plan.TakeBack):
                lower = plan.ReduceTarget(order.group, order.by, order.why, order.from_size)
                await self._try(tally, [order], self._provider.reduce_target(lower))
        until_s = self._api.clock.monotonic_s() + _ANSWERING_S

        async def write(order: plan.OfRequests) -> None:
            if self._api.clock.monotonic_s() <= until_s:
                await self._try(tally, [order], self._write(order))

        answers = [order for order in ordered if isinstance(order, plan.SetConditions | plan.DeleteRequest)]
        await _each(_ANSWERS_AT_ONCE, sorted(answers, key=self._rank), write)
        self._unwritten = frozenset((order.namespace, order.name) for order in answers if order in tally.failed)

    def _rank(self, order: plan.OfRequests) -> int:
        """Which answers are written first: room that is given away, and last those whose writing failed before."""
        if (order.namespace, order.name) in self._unwritten:
            return 3
        if isinstance(order, plan.DeleteRequest):
            return 2
        return 1 - any(one.type == conditions.PROVISIONED and one.status == "True" for one in order.conditions)

    async def _write(self, order: plan.OfRequests) -> None:
        if isinstance(order, plan.DeleteRequest):
            await answering.delete(self._answering, order)
            return
        found = await answering.answer(self._answering, order)
        if self._requests is not None:
            self._requests.note_written(order, found)

    async def _raise(self, tally: _Tally, order: plan.Resize) -> None:
        await self._try(tally, [order], self._provider.resize(order))
        self._raised_s = self._api.clock.monotonic_s()

    async def _delete(
        self, tally: _Tally, orders: Sequence[plan.DeleteNode], known: Callable[[str], facts.Node | None]
    ) -> None:
        by_group: dict[str, list[plan.DeleteNode]] = {}
        for order in orders:
            by_group.setdefault(order.group, []).append(order)

        async def delete(group: str) -> Mapping[plan.Instruction, base.Refused]:
            found = [node for order in by_group[group] if (node := known(order.node)) is not None]
            refused = await self._provider.delete_nodes(group, found)
            return {order: refused[order.node] for order in by_group[group] if order.node in refused}

        await _each(_GROUPS_AT_ONCE, by_group, lambda group: self._try(tally, by_group[group], delete(group)))

    async def _try(
        self,
        tally: _Tally,
        orders: Sequence[plan.Instruction],
        act: Awaitable[Mapping[plan.Instruction, base.Refused] | None],
    ) -> None:
        """Do it, and note what became of it: `act` returns what was refused of it, if not all was.

        A bug in one thing keeps no other from being done.
        """
        try:
            refused = await act or {}
        except base.Refused as error:
            self._note(tally, orders, str(error), error.error)
        except errors.WindlassError as error:
            self._note(tally, orders, str(error), facts.InstanceError("Other", "apiCallError", str(error)))
        except Exception as error:
            _log.exception("%s failed", orders)
            self._note(tally, orders, repr(error), facts.InstanceError("Other", "internalError", repr(error)))
        else:
            tally.done += [order for order in orders if order not in refused]
            for order, why in refused.items():
                self._note(tally, [order], str(why), why.error)

    def _note(self, tally: _Tally, orders: Sequence[plan.Instruction], said: str, why: facts.InstanceError) -> None:
        for order in orders:
            _log.warning("%s: %s", order, said)
            tally.failed[order] = said
            if isinstance(order, plan.Resize):
                tally.refused[order.group] = why


def _find_uid(name: str, known: Callable[[str], facts.Node | None]) -> str:
    node = known(name)
    return "" if node is None else node.uid


def _unmarks(order: nodes.Change) -> bool:
    """Does it take the mark of a candidate for removal away?"""
    return isinstance(order, plan.RemoveTaint) and order.key == taints.DELETION_CANDIDATE


def _is_soft_taint(order: nodes.Change) -> bool:
    return isinstance(order, plan.SetTaint | plan.RemoveTaint) and order.key == taints.DELETION_CANDIDATE


def merge(first: Outcome, then: Outcome) -> Outcome:
    """What became of two parts of a plan."""
    return replace(
        first,
        done=first.done + then.done,
        failed={**first.failed, **then.failed},
        refused={**first.refused, **then.refused},
    )


async def _each(limit: int, things: Iterable[T], act: Callable[[T], Awaitable[None]]) -> None:
    """Do it with each, so many at a time. What is not begun when all is cancelled has never been."""
    gate = asyncio.Semaphore(limit)

    async def pass_through(thing: T) -> None:
        async with gate:
            await act(thing)

    await asyncio.gather(*map(pass_through, things))
