"""act: make, replace and delete what is made of a ClusterAutoscaler."""

from dataclasses import dataclass
from typing import Any

from windlass.controllers.openshift.cluster_autoscaler import names
from windlass.controllers.openshift.cluster_autoscaler.plan import Delete, Ensure
from windlass.controllers.telling import Event
from windlass.kube import client, errors, prepare

Json = dict[str, Any]

_DOING = {
    names.SERVICE.kind: ("EnsureMonitoring", "monitoring"),
    names.SERVICE_MONITOR.kind: ("EnsureMonitoring", "monitoring"),
    names.PROMETHEUS_RULE.kind: ("EnsureMonitoring", "monitoring"),
    names.NETWORK_POLICY.kind: ("EnsureNetworkPolicies", "networkpolicies"),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of steps."""

    failure: Event | None = None
    is_outdated: bool = False
    """Someone else was faster: the steps were made from what is no longer the case."""


class Hands:
    """Writes objects of one namespace."""

    def __init__(self, api: client.Client, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    async def carry_out(self, steps: tuple[Ensure | Delete, ...]) -> Outcome:
        """Until the first that fails."""
        for step in steps:
            try:
                await self._do(step)
            except (errors.Conflict, errors.AlreadyExists):
                return Outcome(is_outdated=True)
            except errors.KubeError as error:
                return Outcome(_tell(step, error))
        return Outcome()

    async def _do(self, step: Ensure | Delete) -> None:
        if isinstance(step, Delete):
            try:
                await self._api.delete(step.resource, step.name, self._namespace, prepare.Deletion(uid=step.uid))
            except errors.NotFound:
                return
        elif step.live is None:
            await self._api.create(step.resource, step.body, self._namespace)
        else:
            await self._api.update(step.resource, replace(step))


def replace(step: Ensure) -> Json:
    """What is there, with the spec that is wanted in place of its own.

    Fields that a former version of us, or someone else, put into the spec go. Addresses of a Service are the server's.
    """
    live, wanted = dict(step.live or {}), step.body
    metadata = dict(live.get("metadata") or {})
    for name in ("labels", "annotations"):
        if name in wanted["metadata"]:
            metadata[name] = {**(metadata.get(name) or {}), **wanted["metadata"][name]}
    metadata["ownerReferences"] = wanted["metadata"]["ownerReferences"]
    spec = wanted["spec"]
    if step.resource.kind == names.SERVICE.kind:
        spec = {**(live.get("spec") or {}), **spec}
    return {**live, "metadata": metadata, "spec": spec}


def _tell(step: Ensure | Delete, error: errors.KubeError) -> Event:
    if step.resource.kind in _DOING:
        action, what = _DOING[step.resource.kind]
        message = f"Error ensuring ClusterAutoscaler {what}: {step.resource.kind} {step.name}: {error}"
        return Event("Warning", names.FAILED_CREATE, message, action)
    if isinstance(step, Ensure) and step.live is None:
        message = f"Error creating ClusterAutoscaler deployment: {error}"
        return Event("Warning", names.FAILED_CREATE, message, "CreateDeployment")
    message = f"Error updating cluster-autoscaler deployment: {error}"
    return Event("Warning", names.FAILED_UPDATE, message, "UpdateDeployment")
