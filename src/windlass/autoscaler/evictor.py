"""Evictor: sends evictions in the background and interprets the answers.

Evictions of many nodes share --kube-client-qps and may take minutes. Queued ones can be cancelled. The time of each
answer is a fact for the next drain loop, so that no deadline runs while an eviction is queued.

201            evicted
404            gone
409            about the pod's uid: another pod has the name, so it is gone; anything else: retry
429            refused by a PodDisruptionBudget; the message says which
500            several budgets match, or one is unreadable: needs an operator
"""

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from windlass import errors
from windlass.engine.model import plan
from windlass.engine.model.plan import PlanResult
from windlass.engine.observation import EvictionAnswer, EvictionState
from windlass.kube import client, request_builders
from windlass.kube import errors as kube_errors

_POD_KINDS = frozenset({"pod", "pods"})
"""How a Status may name the kind of a pod."""


async def evict_pod(api: client.Client, order: plan.Evict) -> None:
    """Ask a pod to leave. KubeError if it may not, or nobody could be asked."""
    grace_s = None if order.grace_s is None else math.ceil(order.grace_s)
    try:
        await api.evict(order.name, order.namespace, request_builders.DeleteOptions(uid=order.uid, grace_s=grace_s))
    except kube_errors.NotFound:
        return
    except kube_errors.Conflict as error:
        if not _is_about_uid(error):
            raise


def _is_about_uid(error: kube_errors.Conflict) -> bool:
    """Did the pod of this name turn out to be another one?"""
    kind = (error.status.details.kind if error.status.details else None) or ""
    return kind.lower() in _POD_KINDS and "UID" in (error.status.message or "")


T = TypeVar("T")

_MAX_CONCURRENT = 25

_QUEUE_AHEAD_S = 2.0
"""How many seconds' worth of requests are handed to a client with a limit: all others that use it wait behind them."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _AnswerTimes:
    """When an eviction was first and last answered, monotonic."""

    first_s: float
    last_s: float


@dataclass(slots=True, eq=False)
class _Batch(Generic[T]):
    """What became of the evictions that were ordered together."""

    about: T
    done: list[plan.Instruction] = field(default_factory=list)
    failed: dict[plan.Instruction, str] = field(default_factory=dict)


class Evictor(Generic[T]):
    """Evictions that are waiting to be sent or answered, and those that were. `T`: what each batch belongs to."""

    def __init__(self, api: client.Client, on_answer: Callable[[], None] = lambda: None) -> None:
        self.on_answer = on_answer
        self._api = api
        self._waiting: dict[str, tuple[plan.Evict, _Batch[T]]] = {}
        """By the pod's identity, in the order in which they are sent."""
        self._sent: dict[str, plan.Evict] = {}
        self._answered: dict[str, _AnswerTimes] = {}
        self._batches: list[_Batch[T]] = []
        """Those of which there is something to say."""
        self._has_more = asyncio.Event()

    async def run(self) -> None:
        """Send what is submitted, until cancelled."""
        async with asyncio.TaskGroup() as together:
            for _ in range(self._count_workers()):
                together.create_task(self._work())

    def _count_workers(self) -> int:
        qps = self._api.settings.qps
        return _MAX_CONCURRENT if qps <= 0.0 else min(max(math.ceil(qps * _QUEUE_AHEAD_S), 1), _MAX_CONCURRENT)

    def submit(self, orders: Iterable[plan.Evict], about: T) -> None:
        """Have these sent; one that is under way already is not sent twice."""
        batch = _Batch(about)
        for order in orders:
            uid = order.identity
            if uid not in self._waiting and uid not in self._sent:
                self._waiting[uid] = order, batch
        if self._waiting:
            self._has_more.set()

    def cancel_except(self, nodes: Collection[str]) -> None:
        """Do not send what waits for its turn, but for pods on these nodes."""
        self._waiting = {uid: one for uid, one in self._waiting.items() if one[0].node in nodes}

    def clear_answers(self) -> None:
        """No drain is under way any more that could ask for them."""
        self._answered.clear()

    def observe(self) -> EvictionState:
        """What is to be answered, and when what was answered was, by the wall clock."""
        if not self._waiting and not self._sent and not self._answered:
            return EvictionState()
        ahead_s = self._api.clock.now_s() - self._api.clock.monotonic_s()
        answered = {
            uid: EvictionAnswer(one.first_s + ahead_s, one.last_s + ahead_s) for uid, one in self._answered.items()
        }
        return EvictionState(frozenset((*self._waiting, *self._sent)), answered)

    def take_results(self) -> list[tuple[T, PlanResult]]:
        """What became of evictions since this was last asked, batch by batch."""
        found = [(batch.about, PlanResult(tuple(batch.done), dict(batch.failed))) for batch in self._batches]
        for batch in self._batches:
            batch.done, batch.failed = [], {}
        self._batches = []
        return found

    async def _work(self) -> None:
        while True:
            if not self._waiting:
                self._has_more.clear()
                await self._has_more.wait()
                continue
            uid = next(iter(self._waiting))
            order, batch = self._waiting.pop(uid)
            self._sent[uid] = order
            try:
                await self._evict(order, batch)
            finally:
                del self._sent[uid]
            now_s = self._api.clock.monotonic_s()
            known = self._answered.get(uid)
            self._answered[uid] = _AnswerTimes(now_s if known is None else known.first_s, now_s)
            if batch not in self._batches:
                self._batches.append(batch)
            self.on_answer()

    async def _evict(self, order: plan.Evict, batch: _Batch[T]) -> None:
        """Send one, and note what became of it. A bug in one keeps no other from being sent."""
        try:
            await evict_pod(self._api, order)
        except errors.WindlassError as error:
            _log.warning("%s: %s", order, error)
            batch.failed[order] = str(error)
        except Exception as error:
            _log.exception("%s failed", order)
            batch.failed[order] = repr(error)
        else:
            batch.done.append(order)
