"""act: annotate MachineSets, and write what is said of a MachineAutoscaler, in the order in which it has to be done."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from windlass.controllers.openshift import apis, unkept
from windlass.controllers.openshift import names as openshift
from windlass.controllers.openshift.machine_autoscaler import facts, names, report
from windlass.controllers.openshift.machine_autoscaler.plan import Annotate, Plan
from windlass.kube import client, errors
from windlass.kube.resources import Resource, Unstructured

Json = dict[str, Any]
Spoken = Callable[[apis.Api], Resource[Unstructured]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a plan."""

    failed: str = ""
    """The reason of the event that tells of what could not be done; empty if all was."""
    message: str = ""
    is_outdated: bool = False
    """Someone else was faster: the plan was made from what is no longer the case."""


class Hands:
    """Carries plans out. What fails keeps what comes after it from being done."""

    def __init__(self, api: client.Client, spoken: Spoken) -> None:
        self._api = api
        self._spoken = spoken
        self._unkept = unkept.Unkept()

    async def carry_out(self, plan: Plan, autoscaler: facts.Autoscaler) -> tuple[facts.Autoscaler, Outcome]:
        """What came of it, and the MachineAutoscaler as it then is.

        Before a target is written to, the MachineAutoscaler has its finalizer and says what its target is: whatever
        ends us, nothing is left behind that nobody remembers.
        """
        doing = names.FAILED_FINALIZE_TARGET
        try:
            if plan.release is not None:
                await self._annotate(plan.release)
            doing = names.FAILED_UPDATE_TARGET
            if plan.finalizers is not None:
                autoscaler = await self._finalize(autoscaler, plan.finalizers)
            if autoscaler.is_deleting:
                return autoscaler, Outcome()
            doing = names.FAILED_SET_LAST_TARGET
            status = dataclasses.replace(autoscaler.status, last_target=plan.status.last_target)
            autoscaler = await self.say(autoscaler, status)
            doing = names.FAILED_UPDATE_TARGET
            if plan.target is not None:
                await self._annotate(plan.target, must_exist=True)
        except errors.Conflict:
            return autoscaler, Outcome(is_outdated=True)
        except errors.KubeError as error:
            return autoscaler, Outcome(doing, str(error))
        return autoscaler, Outcome()

    async def say(self, autoscaler: facts.Autoscaler, status: facts.Status) -> facts.Autoscaler:
        """Say what is the case, if that is news."""
        patch = report.patch(autoscaler.status, status)
        if not patch:
            return autoscaler
        body = await self._patch(autoscaler, patch, subresource="status")
        self._unkept.note(autoscaler.uid, status.conditions, (body.get("status") or {}).get("conditions"))
        version = body["metadata"].get("resourceVersion") or ""
        return dataclasses.replace(autoscaler, status=status, resource_version=version)

    def recall(self, autoscaler: facts.Autoscaler) -> facts.Autoscaler:
        """With the conditions that the server did not keep."""
        found = autoscaler.status
        said = self._unkept.recall(autoscaler.uid, found.conditions)
        return dataclasses.replace(autoscaler, status=dataclasses.replace(found, conditions=said))

    async def _finalize(self, autoscaler: facts.Autoscaler, finalizers: tuple[str, ...]) -> facts.Autoscaler:
        try:
            body = await self._patch(autoscaler, {"metadata": {"finalizers": list(finalizers)}})
        except errors.NotFound:
            return autoscaler
        version = body["metadata"].get("resourceVersion") or ""
        return dataclasses.replace(autoscaler, finalizers=finalizers, resource_version=version)

    async def _patch(self, autoscaler: facts.Autoscaler, patch: Json, subresource: str = "") -> Json:
        resource = openshift.MACHINE_AUTOSCALERS
        metadata = {**patch.get("metadata", {}), "resourceVersion": autoscaler.resource_version}
        body = {**patch, "metadata": metadata}
        return await self._api.merge_patch(
            resource, autoscaler.name, body, autoscaler.namespace, subresource=subresource
        )

    async def _annotate(self, step: Annotate, *, must_exist: bool = False) -> None:
        """Only of the object that was looked at. One that is gone needs nothing taken off."""
        looked_at = {"uid": step.uid, "resourceVersion": step.resource_version}
        body = {"metadata": {**looked_at, "annotations": dict(step.annotations)}}
        try:
            await self._api.merge_patch(self._spoken(step.api), step.name, body, step.api.namespace)
        except errors.NotFound:
            if must_exist:
                raise
