"""decide: facts of a pair in, a plan out. Pure.

migration     does authority move?
deletion      is one of the two on its way out?
mirroring     what makes the mirror say what the holder says: labels, annotations, spec, status
annotations   what the autoscaler's operator wrote, from either side
replicas      who wrote the size
machines      which Machine goes first
conditions    what is said of it
"""

from windlass.controllers.openshift import apis, authority
from windlass.controllers.openshift.machineset_sync import facts, names, plan
from windlass.controllers.openshift.machineset_sync.conversion import annotations, infrastructure, spec
from windlass.controllers.openshift.machineset_sync.decide import deletion, migration, mirroring


def decide(seen: facts.Seen, now_s: float) -> plan.Plan:
    """What is to be done about a pair. Where nobody holds yet, or while authority moves, nothing is mirrored."""
    if seen.machine_api is None:
        return deletion.let_orphan_go(seen)
    if (moved := migration.decide(seen, now_s)) is not None:
        return moved
    holder = next((api for api in apis.BOTH if api.authority == authority.read(seen.machine_api).value), None)
    if holder is None:
        return plan.NOTHING
    if (gone := deletion.decide(seen, holder)) is not None:
        return gone
    if held_back := _finalize(seen):
        return plan.Plan(tuple(held_back), why="finalizers")
    if holder is apis.MACHINE_API or seen.cluster_api is None:
        return _to_cluster_api(seen, seen.machine_api, holder, now_s)
    return _to_machine_api(seen, seen.cluster_api, now_s)


def _finalize(seen: facts.Seen) -> list[plan.Patch]:
    steps = []
    for api in apis.BOTH:
        found = seen.pair.get(api)
        if found is not None and names.FINALIZER not in facts.finalizers(found):
            steps.append(plan.Patch(api, {"metadata": {"finalizers": [*facts.finalizers(found), names.FINALIZER]}}))
    return steps


def _to_cluster_api(seen: facts.Seen, one: facts.Json, holder: apis.Api, now_s: float) -> plan.Plan:
    events = _warn(apis.MACHINE_API, annotations.list_unreadable(facts.annotations(one)))
    if owners := facts.metadata(one).get("ownerReferences"):
        text = f"metadata.ownerReferences: Invalid value: {owners}: they cannot be converted"
        return _fail(names.FAILED_TO_CONVERT_TO_CLUSTER_API, text)
    if complaints := spec.check(one):
        return _fail(names.FAILED_TO_CONVERT_TO_CLUSTER_API, "; ".join(complaints))
    value = ((facts.spec(one).get("template") or {}).get("spec") or {}).get("providerSpec") or {}
    try:
        made_of = infrastructure.read(seen.pair.name, value.get("value"))
    except infrastructure.Inconvertible as error:
        return _fail(names.FAILED_TO_CONVERT_TO_CLUSTER_API, str(error))
    if seen.cluster is None:
        text = f"Cluster {apis.CLUSTER_API.namespace}/{seen.cluster_name} is not there"
        return _fail(names.FAILED_TO_GET_INFRASTRUCTURE, text)
    owner = mirroring.refer_to(seen.cluster)
    there = next((each for each in seen.templates if (each.kind, each.name) == (made_of.kind, made_of.name)), None)
    steps: list[plan.Step] = []
    if there is None and made_of.spec is None:
        return _fail(names.FAILED_TO_GET_INFRASTRUCTURE, _miss(made_of.kind, made_of.name))
    if there is None:
        body = infrastructure.make(seen.pair.name, made_of, apis.CLUSTER_API.namespace, owner)
        steps.append(plan.ApplyTemplate(body))
    if seen.cluster_api is None:
        steps.append(mirroring.create(seen, made_of, owner, holder))
        # Of what holds from the start both are equal now; its generations count from the next pass on.
        done = plan.Condition("True", names.RESOURCE_SYNCHRONIZED, names.SYNCHRONIZED_TO_CLUSTER_API)
        said = done if holder is apis.CLUSTER_API else None
        return plan.Plan(tuple(steps), said, events, migration.complain(seen) or "new")
    steps += mirroring.to_cluster_api(seen, made_of, owner)
    steps += mirroring.settle_annotations(seen, holder)
    sized, why, needs_machines = mirroring.sizes(seen, holder)
    if needs_machines:
        return plan.Plan(needs_machines=True, why=why)
    steps += sized
    steps += deletion.drop_templates(seen, made_of)
    steps = steps or mirroring.statuses(seen, holder, now_s)
    if steps or deletion.waits_for_templates(seen, made_of):
        return plan.Plan(tuple(steps), events=events, why=why)
    done = plan.Condition("True", names.RESOURCE_SYNCHRONIZED, names.SYNCHRONIZED_TO_CLUSTER_API, facts.generation(one))
    return plan.Plan((), done, events, why)


def _to_machine_api(seen: facts.Seen, one: facts.Json, now_s: float) -> plan.Plan:
    if complaint := _complain_of_owners(one):
        return _fail(names.FAILED_TO_CONVERT_TO_MACHINE_API, complaint)
    reference = ((facts.spec(one).get("template") or {}).get("spec") or {}).get("infrastructureRef") or {}
    if not facts.spec(one).get("clusterName") or not reference.get("name"):
        text = "spec.clusterName and spec.template.spec.infrastructureRef.name: Required value"
        failed = _fail(names.FAILED_TO_GET_INFRASTRUCTURE, text)
        event = plan.Event(apis.CLUSTER_API, names.SYNCHRONIZATION_ERROR, text)
        return plan.Plan(condition=failed.condition, events=(event,), why=failed.why)
    wanted = (reference.get("kind"), reference["name"])
    template = next((each for each in seen.templates if (each.kind, each.name) == wanted), None)
    if template is None:
        return _fail(names.FAILED_TO_GET_INFRASTRUCTURE, _miss(reference.get("kind") or "", reference["name"]))
    steps = mirroring.to_machine_api(seen, template)
    steps += mirroring.settle_annotations(seen, apis.CLUSTER_API)
    sized, why, _ = mirroring.sizes(seen, apis.CLUSTER_API)
    steps = [*steps, *sized] or mirroring.statuses(seen, apis.CLUSTER_API, now_s)
    if steps:
        return plan.Plan(tuple(steps), why=why)
    done = plan.Condition("True", names.RESOURCE_SYNCHRONIZED, names.SYNCHRONIZED_TO_MACHINE_API, facts.generation(one))
    return plan.Plan((), done, why=why)


def _complain_of_owners(one: facts.Json) -> str:
    owners = facts.metadata(one).get("ownerReferences") or ()
    group = apis.CLUSTER_API.group
    if len(owners) > 1:
        return f"metadata.ownerReferences: Too many: {len(owners)}: must have at most 1 item"
    if any(each.get("kind") != "Cluster" or each.get("apiVersion", "").partition("/")[0] != group for each in owners):
        return f"metadata.ownerReferences: Invalid value: {list(owners)}: only a Cluster of {group} can be converted"
    return ""


def _miss(kind: str, name: str) -> str:
    return f"{kind} {apis.CLUSTER_API.namespace}/{name} is not there"


def _fail(reason: str, message: str) -> plan.Plan:
    """What stands in the way is watched: it is looked at again when it changes."""
    return plan.Plan(condition=plan.Condition("False", reason, message), why=message)


def _warn(api: apis.Api, messages: list[str]) -> tuple[plan.Event, ...]:
    return tuple(plan.Event(api, names.CONVERSION_WARNING, each) for each in messages)
