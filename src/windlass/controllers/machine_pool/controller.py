"""The controller: which changes wake which MachinePool, and what happens to one that is woken."""

from windlass.controllers import controller, desk, serving
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
from windlass.kube import events


def make(site: controller.Site, settings: Settings, reach: workloads.Dial = workloads.dial) -> "MachinePools":
    return MachinePools(site, settings, reach)


class MachinePools:
    """Keeps MachinePools as they should be."""

    name = "machine_pool"

    def __init__(self, site: controller.Site, settings: Settings, reach: workloads.Dial) -> None:
        self._site = site
        self._settings = settings
        self._dial = reach
        self._measures = measures.Measures(site.measures.registry)
        self._desk = desk.Desk(site, self.name)

    def complain(self) -> str:
        return self._desk.complain()

    async def run(self) -> None:
        """Until cancelled."""
        served = await serving.choose_version(self._site.api, names.GROUP, contract.CONTRACTS)
        version = served.removeprefix(f"{names.GROUP}/")
        watched = watches.Watches(self._site, self._settings, self._desk, version, self._dial)
        hands = act.Hands(self._site.api, version)
        # Plans tell what is new, and nothing twice: each event is worth being written.
        recorder = events.Recorder(self._site.api, names.MACHINE_MANAGER, window_s=0.0)
        self._desk.following.spawn(recorder.run())
        await self._desk.run(lambda key: self._reconcile(key, watched, hands, recorder))

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
            self._desk.queue.add_after(key, plan.again_s)
        about = events.About(before.api_version, "MachinePool", before.name, before.namespace, before.uid)
        for event in plan.events if outcome.is_written else ():
            recorder.record(about, event.type, event.reason, event.message)
        if outcome.is_outdated:
            return desk.RETRY_S
        if failures := (*plan.failures, *outcome.failures):
            raise controller.NotYet("; ".join(failures))
        return self._settings.resync_s
