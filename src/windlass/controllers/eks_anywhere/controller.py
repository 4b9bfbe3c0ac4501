"""The controller: what happens to a Cluster that is woken."""

import dataclasses

from windlass.controllers import controller
from windlass.controllers.eks_anywhere import facts, names, observe, report, watches
from windlass.controllers.eks_anywhere.decide import decide
from windlass.controllers.eks_anywhere.plan import Plan
from windlass.controllers.eks_anywhere.settings import Settings
from windlass.controllers.worker_pools import act, serving
from windlass.kube import errors
from windlass.runtime import workqueue

_RETRY_S = 5.0
_UNKNOWN_S = 1.0
_PACE = workqueue.Settings(first_s=0.25, limit_s=300.0)


def make(site: controller.Site, settings: Settings) -> "Clusters":
    return Clusters(site, settings)


class Clusters:
    """Keeps the worker node groups of EKS Anywhere's Clusters as they should be."""

    name = "eks_anywhere"

    def __init__(self, site: controller.Site, settings: Settings) -> None:
        self._site = site
        self._settings = settings
        self._api = site.api.written_by(names.MANAGER)
        self._queue: workqueue.WorkQueue[str] = workqueue.WorkQueue(site.api.clock, _PACE)
        self._watched: watches.Watches | None = None
        site.measures.watch(self.name, self._queue)

    def complain(self) -> str:
        return "" if self._watched is None else self._watched.following.complaint

    async def run(self) -> None:
        """Until cancelled."""
        version = await serving.choose_version(self._site.api)
        watched = self._watched = watches.Watches(self._site, self._settings, self._queue, version)
        hands = act.Hands(self._site.api, version, names.MANAGER)

        async def reconcile(key: str) -> float | None:
            with self._site.measures.measure(self.name):
                return await self._reconcile(key, watched, hands)

        await watched.following.run(reconcile, self._site.workers)

    async def _reconcile(self, key: str, watched: watches.Watches, hands: act.Hands) -> float | None:
        body = watched.get(key)
        if body is None:
            return None
        cluster = observe.read_cluster(body)
        if cluster.is_left_alone:
            return None
        seen = watched.observe(cluster)
        if seen is None:
            return _UNKNOWN_S
        plan = decide(seen, self._site.api.clock.now_s())
        outcome = await hands.carry_out(plan.steps, seen.namespace)
        is_written = await self._write(cluster, plan, outcome)
        if outcome.failures:
            raise controller.NotYet("; ".join(outcome.failures))
        if outcome.is_outdated or not is_written:
            return _RETRY_S  # woken as soon as what changed is known; this is for the case that it never is
        return self._settings.resync_s if plan.again_s is None else plan.again_s

    async def _write(self, cluster: facts.Cluster, plan: Plan, outcome: act.Outcome) -> bool:
        """Say what is the case. A generation whose groups could not be written is not reconciled."""
        status = plan.status
        if not outcome.is_done:
            status = dataclasses.replace(status, reconciled_generation=cluster.status.reconciled_generation)
        patch = report.patch(cluster.status, status)
        if not patch:
            return True
        body = {**patch, "metadata": {"resourceVersion": cluster.resource_version}}
        resource = watches.CLUSTERS_OF_EKS
        try:
            await self._api.merge_patch(resource, cluster.name, body, cluster.namespace, subresource="status")
        except errors.NotFound:
            return True
        except errors.Conflict:
            return False
        return True
