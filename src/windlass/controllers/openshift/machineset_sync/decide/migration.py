"""Migration: authority moves from one API to the other, through Migrating, in which neither acts.

    asked for          only once both are equal, marks and all: while migrating nothing is mirrored any more
    Migrating          the old holder is paused (Machine API pauses itself), and says so
    done               the new holder is unpaused; authority and a reset of what was mirrored are one write

Someone may change their mind, or the old holder, on the way. The condition tells which API held: then what is wanted
again is simply given back, and what was changed is mirrored first, by going back and beginning anew. Where the
condition does not say it, the old holder is taken to be the one that is not wanted.
"""

from windlass.controllers.openshift import apis, authority, names
from windlass.controllers.openshift.authority import Authority
from windlass.controllers.openshift.machineset_sync import facts, plan
from windlass.controllers.openshift.machineset_sync import names as sync_names
from windlass.controllers.openshift.machineset_sync.decide import conditions, rules

_RESET = plan.Condition("Unknown", sync_names.AUTHORITY_CHANGED, sync_names.WAITING_FOR_RESYNC)


def decide(seen: facts.Seen, now_s: float) -> plan.Plan | None:
    """None: no authority has to move, or not before both are equal. Nothing that the rules forbid is asked for."""
    machine_set = seen.machine_api
    found = None if machine_set is None else _decide(seen, machine_set, now_s)
    before = facts.status(machine_set)
    for step in found.steps if found is not None else ():
        if isinstance(step, plan.SetAuthority) and (wrong := rules.check_status(before, {**before, **step.status})):
            return plan.Plan(why="; ".join(wrong))
    return found


def _decide(seen: facts.Seen, machine_set: facts.Json, now_s: float) -> plan.Plan | None:
    wanted, held = authority.read_wanted(machine_set), authority.read(machine_set)
    if wanted is held or wanted is Authority.UNSET:
        return None
    if held is Authority.UNSET:
        return plan.Plan((plan.SetAuthority({"authoritativeAPI": wanted.value}),), why="first seen")
    if held is Authority.MIGRATING:
        return _carry_on(seen, machine_set, wanted, now_s)
    if not _is_ready(seen, machine_set, held):
        return None
    return plan.Plan((plan.SetAuthority({"authoritativeAPI": Authority.MIGRATING.value}),), why="asked for")


def complain(seen: facts.Seen) -> str:
    """Why authority cannot move, if Cluster API is to give it back and has nothing of that name."""
    machine_set = seen.machine_api
    if machine_set is None or seen.cluster_api is not None:
        return ""
    is_asked = authority.read_wanted(machine_set) is Authority.MACHINE_API
    is_held = authority.read(machine_set) in (Authority.CLUSTER_API, Authority.MIGRATING)
    at = f"{apis.CLUSTER_API.namespace}/{seen.pair.name}"
    return f"failed to get Cluster API machine set {at}: it is made first" if is_asked and is_held else ""


def _is_ready(seen: facts.Seen, machine_set: facts.Json, held: Authority) -> bool:
    """Is the other equal to the holder, as it is now?"""
    if not conditions.is_synchronized(machine_set):
        return False
    source = conditions.find_source(machine_set)
    if source and source != held.value:
        return False
    return _is_mirrored(seen, machine_set, held)


def _is_mirrored(seen: facts.Seen, machine_set: facts.Json, source: Authority) -> bool:
    body = machine_set if source is Authority.MACHINE_API else seen.cluster_api
    recorded = facts.status(machine_set).get("synchronizedGeneration") or 0
    return body is not None and recorded == facts.generation(body)


def _carry_on(seen: facts.Seen, machine_set: facts.Json, wanted: Authority, now_s: float) -> plan.Plan:
    told = conditions.find_source(machine_set)
    other = Authority.CLUSTER_API if wanted is Authority.MACHINE_API else Authority.MACHINE_API
    source = Authority(told) if told else other
    if source is wanted:
        return _hand_over(seen, wanted, {}, "given back")
    if not conditions.is_synchronized(machine_set):
        return plan.NOTHING
    if not _is_mirrored(seen, machine_set, source):
        return _hand_over(seen, source, {}, "changed meanwhile: mirrored first") if told else plan.NOTHING
    if wanted is Authority.CLUSTER_API and not facts.is_paused(machine_set):
        return plan.NOTHING
    reset = {**(conditions.spell(_RESET, machine_set, now_s) or {}), "synchronizedGeneration": 0}
    return _hand_over(seen, wanted, reset, "done")


def _hand_over(seen: facts.Seen, to: Authority, more: facts.Json, why: str) -> plan.Plan:
    """Give authority to an API, as soon as Cluster API's is paused or not as it should be."""
    body = seen.cluster_api
    is_annotated = names.PAUSED_ANNOTATION in facts.annotations(body)
    done = plan.SetAuthority({"authoritativeAPI": to.value, **more})
    if to is Authority.CLUSTER_API:
        unpause = (_pause(None),) if is_annotated else ()
        return plan.Plan((*unpause, done), why=why)
    if body is None:
        return plan.Plan((done,), why=why) if not more else plan.NOTHING
    if not is_annotated:
        return plan.Plan((_pause(""),), why=why)
    return plan.Plan((done,), why=why) if facts.is_paused(body) else plan.NOTHING


def _pause(value: str | None) -> plan.Patch:
    return plan.Patch(apis.CLUSTER_API, {"metadata": {"annotations": {names.PAUSED_ANNOTATION: value}}})
