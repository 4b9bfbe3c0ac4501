"""MachineDeployment applier: executes the planned applies, handovers and deletions.

An adopted MachineDeployment is written under the field manager of its step. A step that fails does not stop the
others. NotFound and Conflict mean that the plan was made from stale objects.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from windlass.controllers import controller_interface, controller_runtime, machine_deployments
from windlass.kube import client, errors, request_builders
from windlass.kube.resources import MACHINE_DEPLOYMENTS, Resource


class AlreadyExists(controller_interface.RequeueError):
    """The MachineDeployment to create exists already: the plan was made from stale objects."""


async def find_cluster_api_version(api: client.Client) -> str:
    """The apiVersion of Cluster API to use. NotServedError while the server serves none that is known."""
    group, versions = machine_deployments.CLUSTER_API_GROUP, machine_deployments.CLUSTER_API_VERSIONS
    return await controller_runtime.find_served_version(api, group, versions)


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """Outcome of applying steps."""

    failures: tuple[str, ...] = ()
    is_conflict: bool = False
    """The plan was made from stale objects."""

    @property
    def is_done(self) -> bool:
        return not self.failures and not self.is_conflict


class MachineDeploymentApplier:
    """Applies MachineDeployments by server-side apply, under the field manager of those that are made here."""

    def __init__(self, api: client.Client, api_version: str, manager: str) -> None:
        self._manager = manager
        self._api = api.with_field_manager(manager)
        self._resource: Resource[dict[str, Any]] = MACHINE_DEPLOYMENTS.at(api_version).untyped()

    async def apply(self, steps: Iterable[machine_deployments.MachineDeploymentStep], namespace: str) -> ApplyResult:
        result = await controller_runtime.execute_steps(
            steps, lambda step: self._execute(step, namespace), (AlreadyExists, errors.NotFound, errors.Conflict)
        )
        failures = tuple(f"MachineDeployment {step.name}: {error}" for step, error in result.failures)
        return ApplyResult(failures, result.is_conflict)

    async def _execute(self, step: machine_deployments.MachineDeploymentStep, namespace: str) -> None:
        if isinstance(step, machine_deployments.DeleteMachineDeployment):
            how = request_builders.DeleteOptions(uid=step.uid)
            await self._api.delete(self._resource, step.name, namespace, how)
            return
        if step.handover is not None:
            await self._hand_over(step, step.handover, namespace)
        if step.body is None:
            return
        if step.uid:
            metadata = {**step.body["metadata"], "uid": step.uid}
            api = self._api.with_field_manager(step.manager or self._manager)
            await api.apply(self._resource, {**step.body, "metadata": metadata}, force=True)
        elif await self._is_new(step, namespace):
            await self._api.apply(self._resource, step.body)

    async def _is_new(self, step: machine_deployments.ApplyMachineDeployment, namespace: str) -> bool:
        """True if the MachineDeployment does not exist.

        The initial size of a new pool must not overwrite a live one.
        """
        try:
            found = await self._api.get(self._resource, step.name, namespace)
        except errors.NotFound:
            return True
        raise AlreadyExists(f"MachineDeployment {namespace}/{step.name}: {found['metadata'].get('uid')}")

    async def _hand_over(
        self,
        step: machine_deployments.ApplyMachineDeployment,
        handover: machine_deployments.ReplicasHandover,
        namespace: str,
    ) -> None:
        """Apply the current replicas as the second field manager, on the observed resourceVersion."""
        metadata = {"name": step.name, "namespace": namespace}
        looked_at = {"uid": step.uid, "resourceVersion": step.resource_version}
        body = {"metadata": {**metadata, **looked_at}, "spec": {"replicas": handover.replicas}}
        api = self._api.with_field_manager(machine_deployments.handover_manager(step.manager or self._manager))
        await api.apply(self._resource, body, force=handover.force)
