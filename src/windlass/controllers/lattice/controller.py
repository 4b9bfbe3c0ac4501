"""The controller: what happens to a LatticeCluster that is woken."""

from windlass.controllers import controller, desk, serving
from windlass.controllers.lattice import act, facts, names, observe, report, watches
from windlass.controllers.lattice.decide import decide
from windlass.controllers.lattice.plan import Plan
from windlass.controllers.lattice.settings import Settings
from windlass.controllers.worker_pools import act as pools
from windlass.controllers.worker_pools import machine_deployments
from windlass.kube import events

AUTOSCALER_KEY = "the autoscaler"
"""No object's key: those have a slash."""


def make(site: controller.Site, settings: Settings) -> "LatticeClusters":
    return LatticeClusters(site, settings)


class LatticeClusters:
    """Keeps the worker pools of LatticeClusters as they should be."""

    name = "lattice"

    def __init__(self, site: controller.Site, settings: Settings) -> None:
        self._site = site
        self._settings = settings
        self._api = site.api.written_by(names.MANAGER)
        self._deploying = act.Deploying(site.api, settings)
        self._is_deploying = False
        self._desk = desk.Desk(site, self.name)

    def complain(self) -> str:
        return self._desk.complain()

    async def run(self) -> None:
        """Until cancelled."""
        version = await serving.choose_version(self._site.api, machine_deployments.GROUP, machine_deployments.VERSIONS)
        watched = watches.Watches(self._site, self._desk.following, version)
        hands = pools.Hands(self._site.api, version, names.MANAGER)
        recorder = events.Recorder(self._site.api, names.MANAGER, window_s=self._site.event_window_s)
        self._desk.following.spawn(recorder.run())
        await self._desk.run(lambda key: self._reconcile(key, watched, hands, recorder))

    async def _reconcile(
        self, key: str, watched: watches.Watches, hands: pools.Hands, recorder: events.Recorder
    ) -> float | None:
        if key == AUTOSCALER_KEY:
            return await self._deploy()
        body = watched.get(key)
        if body is None:
            return None
        cluster = observe.read_cluster(body)
        if cluster.is_deleting:
            return None
        plan = decide(watched.observe(cluster))
        if plan.wants_autoscaler and self._settings.deploys_autoscaler and not self._is_deploying:
            self._is_deploying = True
            self._desk.queue.add(AUTOSCALER_KEY)
        self._tell(cluster, plan, recorder)
        outcome = await hands.carry_out(plan.steps, cluster.namespace)
        is_written = await self._write(body, cluster, plan)
        if outcome.failures:
            raise controller.NotYet("; ".join(outcome.failures))
        if outcome.is_outdated or not is_written:
            return desk.RETRY_S
        return self._settings.resync_s

    def _tell(self, cluster: facts.Cluster, plan: Plan, recorder: events.Recorder) -> None:
        about = events.About(names.API_VERSION, "LatticeCluster", cluster.name, cluster.namespace, cluster.uid)
        for event in plan.events:
            recorder.record(about, event.type, event.reason, event.message, by_message=True, action=event.action)

    async def _write(self, body: watches.Json, cluster: facts.Cluster, plan: Plan) -> bool:
        """Say what is the case; whether it was said."""
        patch = report.patch(cluster.status, plan.status)
        return await desk.write_status(self._api, watches.LATTICE_CLUSTERS, body, patch)

    async def _deploy(self) -> float:
        failures = await self._deploying.carry_out()
        if failures:
            raise controller.NotYet("; ".join(failures))
        return self._settings.resync_s
