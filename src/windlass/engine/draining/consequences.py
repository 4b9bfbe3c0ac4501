"""Consequences: what drains that failed or were carried out mean for the loops to come.

After a failure scale-down pauses, in the whole cluster or in the group. The peer pauses in the cluster only where
marking failed, and in the group only where the provider refused. The node's unneeded time starts anew either way.
"""

from collections.abc import Sequence
from dataclasses import replace

from windlass.engine import requests
from windlass.engine.draining import marking, taint_latency
from windlass.engine.draining.case import Case, Situation
from windlass.engine.draining.progress import Why
from windlass.engine.memory import DrainBegun, Durable
from windlass.engine.scale_down.cooldown import Activity

_MARKING = frozenset({Why.MARK_REFUSED, Why.MARK_NOT_SEEN})


def remember(durable: Durable, cases: Sequence[Case], situation: Situation) -> Durable:
    """The durable memory after this call."""
    for case in cases:
        failure = case.progress.failure
        if failure is not None and case.has_failed_now:
            durable = _fail(durable, case, failure.why, situation)
        elif case.progress.deleting_s is not None and case.begun.progress.deleting_s is None:
            durable = _delete(durable, case, situation.now_s)
    if situation.settings.drain.dynamic_node_delete_delay_after_taint_enabled:
        durable = _keep_latencies(durable, cases, situation.now_s)
    drains = {case.name: _go_on(case) for case in cases if not case.has_ended}
    return durable if drains == durable.drains else replace(durable, drains=drains)


def _keep_latencies(durable: Durable, cases: Sequence[Case], now_s: float) -> Durable:
    """With what this call measured. Old measurements are dropped with it, not before: memory would change for that."""
    measured = marking.measure_latencies(cases)
    if not measured:
        return durable
    kept = taint_latency.drop_expired((*durable.taint_latencies, *measured), now_s)
    return replace(durable, taint_latencies=kept)


def _go_on(case: Case) -> DrainBegun:
    return case.begun if case.progress is case.begun.progress else replace(case.begun, progress=case.progress)


def _fail(durable: Durable, case: Case, why: Why, situation: Situation) -> Durable:
    always = situation.settings.deviations.pause_after_failed_drains
    if always or why in _MARKING:
        durable = replace(durable, activity=replace(durable.activity, failed_s=situation.now_s))
    if always or why is Why.DELETION_REFUSED:
        durable = _act(durable, case, failed_s=situation.now_s)
    return _forget_request(durable, case)


def _delete(durable: Durable, case: Case, now_s: float) -> Durable:
    """The provider is told only now, so its time to delete starts now."""
    durable = _act(_forget_request(durable, case), case, deleted_s=now_s)
    asked = requests.shrink(durable.health.requests, case.begun.group, case.name, now_s)
    return replace(durable, health=replace(durable.health, requests=asked))


def _act(durable: Durable, case: Case, **times: float) -> Durable:
    group = case.begun.group
    activity = replace(durable.activities.get(group, Activity()), **times)
    return replace(durable, activities={**durable.activities, group: activity})


def _forget_request(durable: Durable, case: Case) -> Durable:
    asked = durable.health.requests
    left = tuple(one for one in asked.scale_downs if one.node != case.name)
    return replace(durable, health=replace(durable.health, requests=replace(asked, scale_downs=left)))
