"""The controller: what happens to a pair of MachineSets that is woken."""

import dataclasses
import logging

from windlass.controllers import controller, desk
from windlass.controllers.openshift import apis, authority, gates
from windlass.controllers.openshift.machineset_sync import act, facts, names, plan, watches
from windlass.controllers.openshift.machineset_sync.decide import conditions, decide
from windlass.controllers.openshift.machineset_sync.settings import Settings
from windlass.kube import client, discovery, errors, events

_KIND_S = 15.0
"""A kind of template that the server lacks is asked for again this often: its definition may come later."""
_log = logging.getLogger(__name__)

Version = tuple[str, str]
"""uid and resourceVersion."""


def make(site: controller.Site, settings: Settings) -> "MachineSets":
    return MachineSets(site, settings)


class MachineSets:
    """Keeps the MachineSets of one name equal."""

    name = "machineset_sync"

    def __init__(self, site: controller.Site, settings: Settings) -> None:
        self._site, self._settings = site, settings
        self._hands = act.Hands(site.api)
        self._recorder = events.Recorder(site.api, names.MANAGER, window_s=site.event_window_s)
        self._desk = desk.Desk(site, self.name)
        self._overwritten: dict[str, set[Version]] = {}
        self._settled: dict[str, tuple[object, ...]] = {}
        """What pairs are like about which nothing is left to be done, as far as it was looked at."""

    def complain(self) -> str:
        return self._desk.complain()

    async def run(self) -> None:
        """Until cancelled."""
        cluster = self._settings.cluster or await find_cluster(self._site.api)
        watched = watches.Watches(self._site.api, self._desk.following, cluster)
        self._desk.following.spawn(self._recorder.run())
        await self._desk.run(lambda key: self._reconcile(key, watched))

    async def _reconcile(self, key: str, watched: watches.Watches) -> float | None:
        pair = watched.pair(key)
        if pair.machine_api is None and pair.cluster_api is None:
            self._overwritten.pop(key, None)
            self._settled.pop(key, None)
            return None
        if self._is_old_news(pair):
            return desk.RETRY_S  # woken as soon as what was written is seen; this is for the case that it never is
        seen = await watched.observe(pair)
        if watched.are_marks_uneven(key):
            seen = dataclasses.replace(seen, machines=await watched.read_machines(pair))
        elif self._settled.get(key) == _recognise(seen):
            return self._settings.resync_s
        now_s = self._site.api.clock.now_s()
        found = decide(seen, now_s)
        if found.needs_machines:
            seen = dataclasses.replace(seen, machines=await watched.read_machines(pair))
            found = decide(seen, now_s)
        self._tell(found, pair)
        if found.steps:
            _log.info("%s: %s: %s", key, found.why, ", ".join(type(step).__name__ for step in found.steps))
            return await self._carry_out(found, pair, watched)
        if found.condition is not None:
            said = await self._say(found.condition, pair)
            if said is None:
                return desk.RETRY_S
            if found.condition.status == "True" and not authority.is_moving(pair.machine_api):
                self._settled[key] = _recognise(seen, said)
        return self._settings.resync_s if watched.knows_kinds(pair) else _KIND_S

    async def _carry_out(self, found: plan.Plan, pair: authority.Pair, watched: watches.Watches) -> float | None:
        outcome = await self._hands.carry_out(found.steps, pair, watched.templates)
        self._overwritten[pair.name] = outcome.overwritten
        if outcome.failure is not None:
            if not outcome.overwritten:
                await self._say(outcome.failure, pair)
            raise controller.NotYet(f"{pair.name}: {outcome.error}")
        if found.condition is not None and not outcome.is_outdated:
            await self._say(found.condition, pair)
        return desk.RETRY_S

    async def _say(self, condition: plan.Condition, pair: authority.Pair) -> Version | None:
        """Write the condition if it is news; what Machine API's is at then. None if someone was faster."""
        if pair.machine_api is None:
            return _version(None)
        status = conditions.spell(condition, pair.machine_api, self._site.api.clock.now_s())
        if status is None:
            return _version(pair.machine_api)
        if condition.status == "False":
            _log.warning("%s: %s: %s", pair.name, condition.reason, condition.message)
        try:
            return _version(await self._hands.say(status, pair))
        except (errors.NotFound, errors.Conflict):
            return None

    def _is_old_news(self, pair: authority.Pair) -> bool:
        """Do we still see what we have overwritten?"""
        overwritten = self._overwritten.get(pair.name, set())
        return any(_version(pair.get(api)) in overwritten for api in apis.BOTH)

    def _tell(self, found: plan.Plan, pair: authority.Pair) -> None:
        for event in found.events:
            body = pair.get(event.api)
            resource = event.api.machine_sets()
            about = events.About(
                resource.api_version,
                resource.kind,
                pair.name,
                event.api.namespace,
                facts.metadata(body).get("uid") or "",
            )
            self._recorder.record(about, events.WARNING, event.reason, event.message, by_message=True)


def _recognise(seen: facts.Seen, machine_api: Version | None = None) -> tuple[object, ...]:
    """What a pair is told by, with all that is decided from; `machine_api`: once its condition is said.

    The condition decides nothing, unless authority moves: what is settled when it is said stays so.
    """
    one, other = _version(seen.machine_api), _version(seen.cluster_api)
    return machine_api or one, other, seen.cluster_name, seen.cluster, seen.templates


def _version(machine_set: facts.Json | None) -> Version:
    metadata = facts.metadata(machine_set)
    return metadata.get("uid") or "", metadata.get("resourceVersion") or ""


async def find_cluster(api: client.Client) -> str:
    """What OpenShift's Infrastructure calls the cluster; empty where there is none."""
    if not await discovery.has(api, gates.INFRASTRUCTURES):
        return ""
    try:
        found = await api.get(gates.INFRASTRUCTURES, gates.SINGLETON)
    except errors.NotFound:
        return ""
    return str(facts.status(found).get("infrastructureName") or "")
