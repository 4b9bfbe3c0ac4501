"""decide: what becomes of a ClusterAutoscaler, and of all that is made of it. Pure."""

from collections.abc import Iterator
from typing import Any

from windlass.controllers.openshift.cluster_autoscaler import facts, names
from windlass.controllers.openshift.cluster_autoscaler.decide import deployment, monitoring, network, validation
from windlass.controllers.openshift.cluster_autoscaler.plan import Delete, Ensure, Plan
from windlass.controllers.openshift.cluster_autoscaler.settings import Settings
from windlass.controllers.telling import Event
from windlass.kube import comparing, conditions
from windlass.kube.resources import Resource

Json = dict[str, Any]


def decide(seen: facts.Seen, settings: Settings, now_s: float) -> Plan:
    """One that cannot be used leaves what is there as it is; one that is on its way out takes the Deployment along."""
    autoscaler = seen.autoscaler
    findings = validation.check(autoscaler.name, autoscaler.spec, settings.name)
    if not findings.is_valid:
        message = f"ClusterAutoscaler validation error: {findings.text}"
        event = Event("Warning", names.FAILED_VALIDATION, message, "Validate")
        return _refuse(autoscaler, names.INVALID, findings.text, event, now_s)
    if seen.trouble:
        message = f"Error getting cluster-autoscaler deployment: {seen.trouble}"
        event = Event("Warning", names.FAILED_GET_DEPLOYMENT, message, "GetDeployment")
        return _refuse(autoscaler, names.FAILED, message, event, now_s)
    if autoscaler.is_deleting:
        return Plan(tuple(_remove(seen)), autoscaler.conditions)
    steps = tuple(_ensure(seen, settings))
    said = describe(autoscaler, True, names.IS_READY, names.IS_READY_MESSAGE, now_s)
    return Plan(steps, said, tuple(_tell(steps)))


def list_wanted(
    autoscaler: facts.Autoscaler, settings: Settings, seen: facts.Seen
) -> Iterator[tuple[Resource[Any], Json]]:
    """All that is made of it: what watches over it first, itself last."""
    name, namespace = autoscaler.name, settings.namespace
    yield names.SERVICE, monitoring.spell_service(name, namespace)
    yield names.SERVICE_MONITOR, monitoring.spell_service_monitor(name, namespace)
    yield names.PROMETHEUS_RULE, monitoring.spell_rule(name, namespace)
    for policy in network.spell(name, namespace, settings.webhooks_port):
        yield names.NETWORK_POLICY, policy
    yield names.DEPLOYMENT, deployment.spell(autoscaler, settings, seen.gates)


def _ensure(seen: facts.Seen, settings: Settings) -> Iterator[Ensure]:
    for resource, body in list_wanted(seen.autoscaler, settings, seen):
        metadata = {**body["metadata"], "ownerReferences": [_own(seen.autoscaler)]}
        wanted = {"apiVersion": resource.api_version, "kind": resource.kind, **body, "metadata": metadata}
        live = seen.live.get((resource.kind, metadata["name"]))
        if live is None or not comparing.holds(live, wanted):
            yield Ensure(resource, wanted, live)


def _own(autoscaler: facts.Autoscaler) -> Json:
    named = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": autoscaler.name, "uid": autoscaler.uid}
    return {**named, "controller": True, "blockOwnerDeletion": True}


def _remove(seen: facts.Seen) -> Iterator[Delete]:
    """The Deployment; the rest goes with its owner."""
    name = names.deployment(seen.autoscaler.name)
    live = seen.live.get((names.DEPLOYMENT.kind, name))
    if live is not None and not live["metadata"].get("deletionTimestamp"):
        yield Delete(names.DEPLOYMENT, name, live["metadata"].get("uid") or "")


def _tell(steps: tuple[Ensure, ...]) -> Iterator[Event]:
    for step in steps:
        if step.resource.kind == names.DEPLOYMENT.kind:
            named = f"ClusterAutoscaler deployment: {step.body['metadata']['namespace']}/{step.name}"
            if step.live is None:
                yield Event("Normal", names.SUCCESSFUL_CREATE, f"Created {named}", "CreateDeployment")
            else:
                yield Event("Normal", names.SUCCESSFUL_UPDATE, f"Updated {named}", "UpdateDeployment")


def _refuse(autoscaler: facts.Autoscaler, reason: str, message: str, event: Event, now_s: float) -> Plan:
    """Nothing is done. It is told once, as long as it is the same."""
    before = conditions.find(autoscaler.conditions, names.READY) or {}
    is_known = (before.get("reason"), before.get("message")) == (reason, message)
    said = describe(autoscaler, False, reason, message, now_s)
    return Plan((), said, () if is_known else (event,), message if reason == names.FAILED else "")


def describe(
    autoscaler: facts.Autoscaler, is_ready: bool, reason: str, message: str, now_s: float
) -> tuple[conditions.Condition, ...]:
    """The conditions that it then has: one, of whether it is ready."""
    return tuple(conditions.put(autoscaler.conditions, names.READY, is_ready, reason, message, now_s))
