"""The controller: which changes wake which MachinePool, and what happens to one that is woken."""

import logging

from windlass.controllers import controller
from windlass.controllers.machine_pool import (
    act,
    contract,
    externals,
    facts,
    measures,
    names,
    observe,
    watches,
    workloads,
)
from windlass.controllers.machine_pool.decide import decide
from windlass.controllers.machine_pool.plan import Plan
from windlass.controllers.machine_pool.settings import Settings
from windlass.kube import discovery, events
from windlass.kube import errors as kube_errors
from windlass.runtime import workqueue

_RETRY_S = 5.0
_PACE = workqueue.Settings(first_s=0.25, limit_s=300.0)
"""What stands in a pool's way is watched, so that asking again and again is seldom what helps."""
_log = logging.getLogger(__name__)


def make(site: controller.Site, settings: Settings, reach: workloads.Dial = workloads.dial) -> "MachinePools":
    return MachinePools(site, settings, reach)


class MachinePools:
    """Keeps MachinePools as they should be."""

    name = "machine_pool"

    def __init__(self, site: controller.Site, settings: Settings, reach: workloads.Dial) -> None:
        self._site = site
        self._settings = settings
        self._dial = reach
        self._queue: workqueue.WorkQueue[str] = workqueue.WorkQueue(site.api.clock, _PACE)
        self._measures = measures.Measures(site.measures.registry)
        self._watched: watches.Watches | None = None
        site.measures.watch(self.name, self._queue)

    def complain(self) -> str:
        return "" if self._watched is None else self._watched.following.complaint

    async def run(self) -> None:
        """Until cancelled."""
        version = await self._choose_version()
        watched = self._watched = watches.Watches(self._site, self._settings, self._queue, version, self._dial)
        hands = act.Hands(self._site.api, version)
        # Plans tell what is new, and nothing twice: each event is worth being written.
        recorder = events.Recorder(self._site.api, names.MACHINE_MANAGER, window_s=0.0)
        watched.following.spawn(recorder.run())

        async def reconcile(key: str) -> float | None:
            with self._site.measures.measure(self.name):
                return await self._reconcile(key, watched, hands, recorder)

        await watched.following.run(reconcile, self._site.workers)

    async def _choose_version(self) -> str:
        """The newest version of Cluster API that is known here and there."""
        while True:
            try:
                served = await discovery.list_versions(self._site.api, names.GROUP)
            except kube_errors.KubeError as error:
                _log.warning("cluster.x-k8s.io: %s", error)
                served = []
            for version in contract.CONTRACTS:
                if f"{names.GROUP}/{version}" in served:
                    return version
            await self._site.api.clock.sleep(_RETRY_S)

    async def _reconcile(
        self, key: str, watched: watches.Watches, hands: act.Hands, recorder: events.Recorder
    ) -> float | None:
        body = watched.pools.get(key)
        if body is None:
            self._measures.forget(key)
            watched.tidy()
            return None
        before = observe.read_pool(body)
        try:
            seen = watched.observe(before)
        except externals.Waiting as waiting:
            if waiting.is_troubled:
                raise
            return None
        if seen is None:
            return None
        plan = decide(seen, self._settings, self._site.api.clock.now_s())
        outcome = await hands.carry_out(plan, before, watched.client_of(before))
        self._measures.show(plan.pool)
        return self._conclude(key, before, plan, outcome, recorder)

    def _conclude(
        self, key: str, before: facts.Pool, plan: Plan, outcome: act.Outcome, recorder: events.Recorder
    ) -> float | None:
        if plan.again_s is not None:
            self._queue.add_after(key, plan.again_s)
        about = events.About(before.api_version, "MachinePool", before.name, before.namespace, before.uid)
        for event in plan.events if outcome.is_written else ():
            recorder.record(about, event.type, event.reason, event.message)
        if outcome.is_outdated:
            return _RETRY_S  # woken as soon as what changed is known; this is for the case that it never is
        if failures := (*plan.failures, *outcome.failures):
            raise controller.NotYet("; ".join(failures))
        return self._settings.resync_s
