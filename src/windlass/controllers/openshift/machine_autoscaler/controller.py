"""The controller: what happens to a MachineAutoscaler that is woken."""

import dataclasses

from windlass.controllers import controller, desk
from windlass.controllers.openshift import names as openshift
from windlass.controllers.openshift import recording
from windlass.controllers.openshift.machine_autoscaler import act, facts, names, watches
from windlass.controllers.openshift.machine_autoscaler.decide import decide, describe
from windlass.controllers.openshift.machine_autoscaler.plan import Event
from windlass.controllers.openshift.machine_autoscaler.settings import Settings
from windlass.kube import errors, events

_UNKNOWN_S = 5.0
_OUTDATED_S = 0.1
"""A MachineSet changed before it was written to. If only its size did, nobody is woken by that."""


def make(site: controller.Site, settings: Settings) -> "MachineAutoscalers":
    return MachineAutoscalers(site, settings)


class MachineAutoscalers:
    """Keeps MachineSets annotated as MachineAutoscalers want them."""

    name = "machine_autoscaler"

    def __init__(self, site: controller.Site, settings: Settings) -> None:
        self._site = site
        self._settings = settings
        self._api = site.api.written_by(openshift.OPERATOR_MANAGER)
        self._desk = desk.Desk(site, self.name)
        self._watched: watches.Watches | None = None

    def complain(self) -> str:
        found = (self._desk.complain(), self._watched.sets.complaint if self._watched else "")
        return "; ".join(each for each in found if each)

    async def run(self) -> None:
        """Until cancelled."""
        watched = self._watched = watches.Watches(self._site, self._settings, self._desk)
        hands = act.Hands(self._api, watched.sets.spoken)
        # Plans tell what is new, and nothing twice: each event is worth being written.
        recorder = events.Recorder(self._site.api, openshift.OPERATOR_MANAGER, window_s=0.0)
        self._desk.following.spawn(recorder.run())
        await self._desk.run(lambda key: self._reconcile(key, watched, hands, recorder))

    async def _reconcile(
        self, key: str, watched: watches.Watches, hands: act.Hands, recorder: events.Recorder
    ) -> float | None:
        found = watched.get(key)
        if found is None:
            return None
        before = hands.recall(found)
        seen = watched.observe(before)
        if seen is None:
            return _UNKNOWN_S
        now_s = self._site.api.clock.now_s()
        plan = decide(seen, now_s)
        found, outcome = await hands.carry_out(plan, before)
        if outcome.is_outdated:
            return _OUTDATED_S
        if outcome.failed:
            return await self._complain(found, outcome, hands, recorder)
        if not found.is_deleting and not await self._say(found, plan.status, hands):
            return desk.RETRY_S
        self._tell(before, plan.events, recorder, watched)
        return self._settings.resync_s if plan.again_s is None else plan.again_s

    async def _say(self, found: facts.Autoscaler, status: facts.Status, hands: act.Hands) -> bool:
        """Say what is the case; whether it was said, or need not be any longer."""
        try:
            await hands.say(found, status)
        except errors.NotFound:
            return True
        except errors.Conflict:
            return False
        return True

    async def _complain(
        self, found: facts.Autoscaler, outcome: act.Outcome, hands: act.Hands, recorder: events.Recorder
    ) -> float | None:
        """What could not be done is said, and tried again later, and later each time."""
        event = Event("Warning", outcome.failed, outcome.message, outcome.failed.removeprefix("Failed"))
        self._tell(found, (event,), recorder)
        if not found.is_deleting:
            now_s = self._site.api.clock.now_s()
            told = describe(found, False, names.TARGET_UPDATE_FAILED, outcome.message, now_s)
            await self._say(found, dataclasses.replace(found.status, conditions=told), hands)
        raise controller.NotYet(outcome.message)

    def _tell(
        self,
        of: facts.Autoscaler,
        told: tuple[Event, ...],
        recorder: events.Recorder,
        watched: watches.Watches | None = None,
    ) -> None:
        about = events.About(names.API_VERSION, names.KIND, of.name, of.namespace, of.uid)
        for event in told:
            whom = about
            if event.of_target is not None and watched is not None:
                api = event.of_target
                metadata = (watched.sets.pair(of.target.name).get(api) or {}).get("metadata") or {}
                version = watched.sets.spoken(api).api_version
                whom = events.About(version, "MachineSet", of.target.name, api.namespace, metadata.get("uid") or "")
            recording.record(recorder, whom, event)
