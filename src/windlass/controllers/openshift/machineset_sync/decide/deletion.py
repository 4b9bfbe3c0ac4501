"""Deletion: both go if the holder goes. If a mirror goes, Machine API's goes with it; what Cluster API holds stays."""

from windlass.controllers.openshift import apis
from windlass.controllers.openshift.machineset_sync import facts, names, plan
from windlass.controllers.openshift.machineset_sync.conversion import infrastructure


def decide(seen: facts.Seen, holder: apis.Api) -> plan.Plan | None:
    """None if nothing is on its way out."""
    one, other = seen.machine_api, seen.cluster_api
    if not facts.is_leaving(one) and not facts.is_leaving(other):
        return None
    if holder is apis.CLUSTER_API and other is not None:
        return _with_cluster_api(seen)
    return _with_machine_api(seen)


def _with_machine_api(seen: facts.Seen) -> plan.Plan:
    """The mirror is paused, so that nobody else takes Cluster API's finalizer off. Ours here goes last."""
    steps: list[plan.Step] = []
    if not facts.is_leaving(seen.machine_api):
        steps.append(plan.Delete(apis.MACHINE_API))
    if seen.cluster_api is not None and not facts.is_leaving(seen.cluster_api):
        steps.append(plan.Delete(apis.CLUSTER_API))
    steps += drop_templates(seen)
    if steps or waits_for_templates(seen):
        return plan.Plan(tuple(steps), why="deleted")
    if seen.cluster_api is not None:
        taken = (names.CLUSTER_API_FINALIZER, names.FINALIZER)
        return plan.Plan(_let_go(apis.CLUSTER_API, seen.cluster_api, taken), why="deleted")
    return plan.Plan(_let_go(apis.MACHINE_API, seen.machine_api), why="deleted")


def _with_cluster_api(seen: facts.Seen) -> plan.Plan:
    both = (
        *_let_go(apis.CLUSTER_API, seen.cluster_api),
        *_let_go(apis.MACHINE_API, seen.machine_api),
    )
    if not facts.is_leaving(seen.cluster_api):
        return plan.Plan(both, why="the mirror is deleted")
    if not facts.is_leaving(seen.machine_api):
        return plan.Plan((plan.Delete(apis.MACHINE_API),), why="deleted")
    if names.CLUSTER_API_FINALIZER in facts.finalizers(seen.cluster_api):
        return plan.NOTHING
    steps = drop_templates(seen)
    if steps or waits_for_templates(seen):
        return plan.Plan(tuple(steps), why="deleted")
    # Ours on Machine API goes last: without it nobody would look at the other again.
    return plan.Plan(both, why="deleted")


def let_orphan_go(seen: facts.Seen) -> plan.Plan:
    """Of a pair of which Machine API's is gone: ours would hold Cluster API's for ever."""
    if facts.is_leaving(seen.cluster_api):
        return plan.Plan(_let_go(apis.CLUSTER_API, seen.cluster_api), why="the mirror is gone")
    return plan.NOTHING


def drop_templates(seen: facts.Seen, but: infrastructure.Infrastructure | None = None) -> list[plan.DeleteTemplate]:
    """Templates that were made for the set, all but what its Machines are made of."""
    found = [each for each in _made(seen, but) if not each.is_leaving]
    return [plan.DeleteTemplate(each.api_version, each.kind, each.name) for each in found]


def waits_for_templates(seen: facts.Seen, but: infrastructure.Infrastructure | None = None) -> bool:
    """Is one on its way out, but still there?"""
    return bool(_made(seen, but))


def _made(seen: facts.Seen, but: infrastructure.Infrastructure | None) -> list[infrastructure.Template]:
    """Another kind of the same content has the same name."""
    made = [each for each in seen.templates if each.labels.get(names.SET_LABEL) == seen.pair.name]
    return [each for each in made if but is None or (each.kind, each.name) != (but.kind, but.name)]


def _let_go(
    api: apis.Api, found: facts.Json | None, taken: tuple[str, ...] = (names.FINALIZER,)
) -> tuple[plan.Step, ...]:
    before = facts.finalizers(found)
    after = [each for each in before if each not in taken]
    return () if after == before else (plan.Patch(api, {"metadata": {"finalizers": after}}),)
