"""act: write MachineDeployments. One that cannot be written does not keep the others from being written."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from windlass.controllers import controller
from windlass.controllers.worker_pools import applying
from windlass.kube import client, errors, prepare
from windlass.kube.resources import MACHINE_DEPLOYMENTS, Resource


class AlreadyThere(controller.NotYet):
    """What was to be made is there, and was not known to be."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of steps."""

    failures: tuple[str, ...] = ()
    is_outdated: bool = False
    """Someone else was faster: the steps were made from what is no longer the case."""

    @property
    def is_done(self) -> bool:
        return not self.failures and not self.is_outdated


class Hands:
    """Writes MachineDeployments of one namespace at a time, as one operator."""

    def __init__(self, api: client.Client, api_version: str, manager: str) -> None:
        self._first = api.written_by(manager)
        self._second = api.written_by(applying.second(manager))
        self._resource: Resource[dict[str, Any]] = MACHINE_DEPLOYMENTS.at(api_version).untyped()

    async def carry_out(self, steps: Iterable[applying.Step], namespace: str) -> Outcome:
        failures = []
        is_outdated = False
        for step in steps:
            try:
                await self._do(step, namespace)
            except (AlreadyThere, errors.NotFound, errors.Conflict):
                is_outdated = True
            except errors.KubeError as error:
                failures.append(f"MachineDeployment {step.name}: {error}")
        return Outcome(tuple(failures), is_outdated)

    async def _do(self, step: applying.Step, namespace: str) -> None:
        if isinstance(step, applying.Delete):
            how = prepare.Deletion(uid=step.uid)
            await self._first.delete(self._resource, step.name, namespace, how)
            return
        if step.handover is not None:
            await self._hand_over(step, step.handover, namespace)
        if step.body is None:
            return
        if step.uid:
            metadata = {**step.body["metadata"], "uid": step.uid}
            await self._first.apply(self._resource, {**step.body, "metadata": metadata}, force=True)
        elif await self._is_new(step, namespace):
            await self._first.apply(self._resource, step.body)

    async def _is_new(self, step: applying.Apply, namespace: str) -> bool:
        """Whether it is still not there. What a new pool begins with is no size for one that has lived."""
        try:
            found = await self._first.get(self._resource, step.name, namespace)
        except errors.NotFound:
            return True
        raise AlreadyThere(f"MachineDeployment {namespace}/{step.name}: {found['metadata'].get('uid')}")

    async def _hand_over(self, step: applying.Apply, handover: applying.Handover, namespace: str) -> None:
        """Only of the object that was looked at: the autoscaler may have moved it since."""
        metadata = {"name": step.name, "namespace": namespace}
        looked_at = {"uid": step.uid, "resourceVersion": step.resource_version}
        body = {"metadata": {**metadata, **looked_at}, "spec": {"replicas": handover.replicas}}
        await self._second.apply(self._resource, body, force=handover.force)
