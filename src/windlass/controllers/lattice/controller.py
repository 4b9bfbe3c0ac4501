"""The controller: what happens to a LatticeCluster that is woken."""

from windlass.controllers import controller
from windlass.controllers.lattice import act, facts, names, observe, report, watches
from windlass.controllers.lattice.decide import decide
from windlass.controllers.lattice.plan import Plan
from windlass.controllers.lattice.settings import Settings
from windlass.controllers.worker_pools import act as pools
from windlass.controllers.worker_pools import serving
from windlass.kube import errors, events
from windlass.runtime import workqueue

AUTOSCALER_KEY = "the autoscaler"
"""No object's key: those have a slash."""
_RETRY_S = 5.0
_PACE = workqueue.Settings(first_s=0.25, limit_s=300.0)


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
        self._queue: workqueue.WorkQueue[str] = workqueue.WorkQueue(site.api.clock, _PACE)
        self._watched: watches.Watches | None = None
        site.measures.watch(self.name, self._queue)

    def complain(self) -> str:
        return "" if self._watched is None else self._watched.following.complaint

    async def run(self) -> None:
        """Until cancelled."""
        version = await serving.choose_version(self._site.api)
        watched = self._watched = watches.Watches(self._site, self._queue, version)
        hands = pools.Hands(self._site.api, version, names.MANAGER)
        recorder = events.Recorder(self._site.api, names.MANAGER)
        watched.following.spawn(recorder.run())

        async def reconcile(key: str) -> float | None:
            with self._site.measures.measure(self.name):
                if key == AUTOSCALER_KEY:
                    return await self._deploy()
                return await self._reconcile(key, watched, hands, recorder)

        await watched.following.run(reconcile, self._site.workers)

    async def _reconcile(
        self, key: str, watched: watches.Watches, hands: pools.Hands, recorder: events.Recorder
    ) -> float | None:
        body = watched.get(key)
        if body is None:
            return None
        cluster = observe.read_cluster(body)
        if cluster.is_deleting:
            return None
        plan = decide(watched.observe(cluster))
        if plan.wants_autoscaler and self._settings.deploys_autoscaler and not self._is_deploying:
            self._is_deploying = True
            self._queue.add(AUTOSCALER_KEY)
        self._tell(cluster, plan, recorder)
        outcome = await hands.carry_out(plan.steps, cluster.namespace)
        is_written = await self._write(cluster, plan)
        if outcome.failures:
            raise controller.NotYet("; ".join(outcome.failures))
        if outcome.is_outdated or not is_written:
            return _RETRY_S  # woken as soon as what changed is known; this is for the case that it never is
        return self._settings.resync_s

    def _tell(self, cluster: facts.Cluster, plan: Plan, recorder: events.Recorder) -> None:
        about = events.About(names.API_VERSION, "LatticeCluster", cluster.name, cluster.namespace, cluster.uid)
        for event in plan.events:
            recorder.record(about, event.type, event.reason, event.message, by_message=True, action=event.action)

    async def _write(self, cluster: facts.Cluster, plan: Plan) -> bool:
        """Say what is the case; whether it was said."""
        patch = report.patch(cluster.status, plan.status)
        if not patch:
            return True
        body = {**patch, "metadata": {"resourceVersion": cluster.resource_version}}
        resource = watches.LATTICE_CLUSTERS
        try:
            await self._api.merge_patch(resource, cluster.name, body, cluster.namespace, subresource="status")
        except errors.NotFound:
            return True
        except errors.Conflict:
            return False
        return True

    async def _deploy(self) -> float:
        failures = await self._deploying.carry_out()
        if failures:
            raise controller.NotYet("; ".join(failures))
        return self._settings.resync_s
