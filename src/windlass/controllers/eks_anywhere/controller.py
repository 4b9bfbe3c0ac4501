"""The controller: what happens to a Cluster that is woken."""

import dataclasses

from windlass.controllers import controller, desk, serving
from windlass.controllers.eks_anywhere import facts, names, observe, report, watches
from windlass.controllers.eks_anywhere.decide import decide
from windlass.controllers.eks_anywhere.plan import Plan
from windlass.controllers.eks_anywhere.settings import Settings
from windlass.controllers.worker_pools import act, machine_deployments

_UNKNOWN_S = 1.0


def make(site: controller.Site, settings: Settings) -> "Clusters":
    return Clusters(site, settings)


class Clusters:
    """Keeps the worker node groups of EKS Anywhere's Clusters as they should be."""

    name = "eks_anywhere"

    def __init__(self, site: controller.Site, settings: Settings) -> None:
        self._site = site
        self._settings = settings
        self._api = site.api.written_by(names.MANAGER)
        self._desk = desk.Desk(site, self.name)

    def complain(self) -> str:
        return self._desk.complain()

    async def run(self) -> None:
        """Until cancelled."""
        version = await serving.choose_version(self._site.api, machine_deployments.GROUP, machine_deployments.VERSIONS)
        watched = watches.Watches(self._site, self._settings, self._desk.following, version)
        hands = act.Hands(self._site.api, version, names.MANAGER)
        await self._desk.run(lambda key: self._reconcile(key, watched, hands))

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
        is_written = await self._write(body, cluster, plan, outcome)
        if outcome.failures:
            raise controller.NotYet("; ".join(outcome.failures))
        if outcome.is_outdated or not is_written:
            return desk.RETRY_S
        return self._settings.resync_s if plan.again_s is None else plan.again_s

    async def _write(self, body: watches.Json, cluster: facts.Cluster, plan: Plan, outcome: act.Outcome) -> bool:
        """Say what is the case. A generation whose groups could not be written is not reconciled."""
        status = plan.status
        if not outcome.is_done:
            status = dataclasses.replace(status, reconciled_generation=cluster.status.reconciled_generation)
        patch = report.patch(cluster.status, status)
        return await desk.write_status(self._api, watches.CLUSTERS_OF_EKS, body, patch)
