"""Evictor: sends evictions in the background and interprets the responses.

Evictions of many nodes share --kube-client-qps and may take minutes. Queued ones can be cancelled. The time of each
response is an input of the next drain step, so that no deadline runs while an eviction is queued.

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
"""Names of the pod kind in a Status."""


async def evict_pod(api: client.Client, order: plan.Evict) -> None:
    """Evict a pod. KubeError if the eviction is rejected or the request fails."""
    grace_s = None if order.grace_s is None else math.ceil(order.grace_s)
    try:
        await api.evict(order.name, order.namespace, request_builders.DeleteOptions(uid=order.uid, grace_s=grace_s))
    except kube_errors.NotFound:
        return
    except kube_errors.Conflict as error:
        if not _is_about_uid(error):
            raise


def _is_about_uid(error: kube_errors.Conflict) -> bool:
    """Whether the error says that another pod has this name now."""
    kind = (error.status.details.kind if error.status.details else None) or ""
    return kind.lower() in _POD_KINDS and "UID" in (error.status.message or "")


T = TypeVar("T")

_MAX_CONCURRENT = 25

_QUEUE_AHEAD_S = 2.0
"""Seconds of requests that are handed to a rate-limited client: its other users wait behind them."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _AnswerTimes:
    """Monotonic times of an eviction's first and last response."""

    first_s: float
    last_s: float


@dataclass(slots=True, eq=False)
class _Batch(Generic[T]):
    """Results of evictions that were submitted together."""

    about: T
    done: list[plan.Instruction] = field(default_factory=list)
    failed: dict[plan.Instruction, str] = field(default_factory=dict)


class Evictor(Generic[T]):
    """Queue of evictions and their results. `T`: identifies what a batch belongs to."""

    def __init__(self, api: client.Client, on_answer: Callable[[], None] = lambda: None) -> None:
        self.on_answer = on_answer
        self._api = api
        self._waiting: dict[str, tuple[plan.Evict, _Batch[T]]] = {}
        """Queued evictions by pod identity, in sending order."""
        self._sent: dict[str, plan.Evict] = {}
        self._answered: dict[str, _AnswerTimes] = {}
        self._batches: list[_Batch[T]] = []
        """Batches with unreported results."""
        self._has_more = asyncio.Event()

    async def run(self) -> None:
        """Send submitted evictions until cancelled."""
        async with asyncio.TaskGroup() as together:
            for _ in range(self._count_workers()):
                together.create_task(self._work())

    def _count_workers(self) -> int:
        qps = self._api.settings.qps
        return _MAX_CONCURRENT if qps <= 0.0 else min(max(math.ceil(qps * _QUEUE_AHEAD_S), 1), _MAX_CONCURRENT)

    def submit(self, orders: Iterable[plan.Evict], about: T) -> None:
        """Queue evictions; one that is queued already is not sent twice."""
        batch = _Batch(about)
        for order in orders:
            uid = order.identity
            if uid not in self._waiting and uid not in self._sent:
                self._waiting[uid] = order, batch
        if self._waiting:
            self._has_more.set()

    def cancel_except(self, nodes: Collection[str]) -> None:
        """Cancel queued evictions except for pods on these nodes."""
        self._waiting = {uid: item for uid, item in self._waiting.items() if item[0].node in nodes}

    def clear_answers(self) -> None:
        """Drop recorded responses when no drain is in progress."""
        self._answered.clear()

    def observe(self) -> EvictionState:
        """Return evictions in progress, and the wall-clock times of responses."""
        if not self._waiting and not self._sent and not self._answered:
            return EvictionState()
        ahead_s = self._api.clock.now_s() - self._api.clock.monotonic_s()
        answered = {
            uid: EvictionAnswer(answer_times.first_s + ahead_s, answer_times.last_s + ahead_s)
            for uid, answer_times in self._answered.items()
        }
        return EvictionState(frozenset((*self._waiting, *self._sent)), answered)

    def take_results(self) -> list[tuple[T, PlanResult]]:
        """Return the results since the last call, per batch."""
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
        """Send one eviction and record its result. An unexpected error does not stop the others."""
        try:
            await evict_pod(self._api, order)
        except errors.WindlassError as error:
            _log.warning("eviction failed: instruction=%s error=%s", order, error)
            batch.failed[order] = str(error)
        except Exception as error:
            _log.exception("eviction failed unexpectedly: instruction=%s", order)
            batch.failed[order] = repr(error)
        else:
            batch.done.append(order)
