"""The controller: what happens to a ClusterAutoscaler that is woken, and to what the operator says of itself."""

from windlass.controllers import controller, desk
from windlass.controllers.openshift import names as openshift
from windlass.controllers.openshift import recording, unkept
from windlass.controllers.openshift.cluster_autoscaler import act, facts, names, report, watches
from windlass.controllers.openshift.cluster_autoscaler.decide import decide, describe, reporting
from windlass.controllers.openshift.cluster_autoscaler.settings import Settings
from windlass.controllers.telling import Event
from windlass.kube import errors, events


def make(site: controller.Site, settings: Settings) -> "ClusterAutoscalers":
    return ClusterAutoscalers(site, settings)


class ClusterAutoscalers:
    """Runs the autoscaler as the ClusterAutoscaler says, and says how the operator fares."""

    name = "cluster_autoscaler"

    def __init__(self, site: controller.Site, settings: Settings) -> None:
        self._site = site
        self._settings = settings
        self._api = site.api.written_by(openshift.OPERATOR_MANAGER)
        self._hands = act.Hands(self._api, settings.namespace)
        self._unkept = unkept.Unkept()
        self._memory = reporting.Memory()
        self._desk = desk.Desk(site, self.name)

    def complain(self) -> str:
        return self._desk.complain()

    async def run(self) -> None:
        """Until cancelled."""
        watched = watches.Watches(self._site, self._settings, self._desk.following)
        # Plans tell what is new, and nothing twice: each event is worth being written.
        recorder = events.Recorder(self._site.api, openshift.OPERATOR_MANAGER, window_s=0.0)
        self._desk.following.spawn(recorder.run())
        self._desk.queue.add(watches.STATUS_KEY)
        await self._desk.run(lambda key: self._reconcile(key, watched, recorder))

    async def _reconcile(self, key: str, watched: watches.Watches, recorder: events.Recorder) -> float | None:
        if key == watches.STATUS_KEY:
            return await self._report(watched)
        found = watched.get(key)
        if found is None:
            return None
        autoscaler = self._recall(found)
        plan = decide(watched.observe(autoscaler), self._settings, self._site.api.clock.now_s())
        outcome = await self._hands.carry_out(plan.steps)
        if outcome.is_outdated:
            return desk.RETRY_S
        if outcome.failure is not None:
            await self._complain(autoscaler, outcome.failure, recorder)
        if not await self._say(autoscaler, plan.conditions):
            return desk.RETRY_S
        self._tell(autoscaler, plan.events, recorder)
        if plan.failure:
            raise controller.NotYet(plan.failure)
        return self._settings.resync_s

    async def _complain(self, autoscaler: facts.Autoscaler, failure: Event, recorder: events.Recorder) -> None:
        """What could not be done is said, and tried again later, and later each time."""
        self._tell(autoscaler, (failure,), recorder)
        now_s = self._site.api.clock.now_s()
        await self._say(autoscaler, describe(autoscaler, False, names.FAILED, failure.message, now_s))
        raise controller.NotYet(failure.message)

    # What is said of a ClusterAutoscaler

    def _recall(self, found: facts.Autoscaler) -> facts.Autoscaler:
        conditions = self._unkept.recall(found.uid, found.conditions)
        return facts.Autoscaler(
            found.name, found.uid, found.resource_version, found.is_deleting, found.spec, conditions
        )

    async def _say(self, autoscaler: facts.Autoscaler, said: tuple[facts.Json, ...]) -> bool:
        """Say what is the case; whether it was said, or need not be any longer."""
        patch = report.patch(autoscaler.conditions, said)
        if not patch:
            return True
        body = {**patch, "metadata": {"resourceVersion": autoscaler.resource_version}}
        try:
            kept = await self._api.merge_patch(names.CLUSTER_AUTOSCALERS, autoscaler.name, body, subresource="status")
        except errors.NotFound:
            return True
        except errors.Conflict:
            return False
        self._unkept.note(autoscaler.uid, said, (kept.get("status") or {}).get("conditions"))
        return True

    def _tell(self, of: facts.Autoscaler, told: tuple[Event, ...], recorder: events.Recorder) -> None:
        """In the namespace of the autoscaler: the ClusterAutoscaler has none."""
        about = refer(of, self._settings.namespace)
        for event in told:
            recording.record(recorder, about, event)

    # What the operator says of itself

    async def _report(self, watched: watches.Watches) -> float:
        seen = watched.observe_operators()
        said = reporting.report(seen, self._memory, self._settings.version, self._site.api.clock.now_s())
        self._memory = said.memory
        patch = report.patch_operator(seen.own, said, reporting.relate(seen, self._settings.namespace))
        if patch:
            await self._write_operator(seen.own, patch)
        return reporting.EVERY_S

    async def _write_operator(self, own: facts.Json | None, patch: dict[str, object]) -> None:
        resource = names.CLUSTER_OPERATORS
        try:
            if own is None:
                named = {"apiVersion": resource.api_version, "kind": resource.kind}
                own = await self._api.create(resource, {**named, "metadata": {"name": names.AUTOSCALER}, "spec": {}})
            body = {**patch, "metadata": {"resourceVersion": own["metadata"]["resourceVersion"]}}
            await self._api.merge_patch(resource, names.AUTOSCALER, body, subresource="status")
        except (errors.Conflict, errors.AlreadyExists, errors.NotFound):
            return  # it changed, which wakes us


def refer(of: facts.Autoscaler, namespace: str) -> events.About:
    return events.About(names.API_VERSION, names.KIND, of.name, namespace, of.uid)
