"""act: carry out a plan. A step that fails is told and does not keep the others from being done."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from windlass.controllers.machine_pool import facts, models, names, plan, report
from windlass.controllers.machine_pool.decide import ownership
from windlass.kube import client, errors, prepare
from windlass.kube.resources import NODES, Resource


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a plan."""

    failures: tuple[str, ...] = ()
    is_outdated: bool = False
    """Someone else was faster: the plan was made from what is no longer the case, and is made anew."""
    is_written: bool = True
    """What the pool should be, it is: what is told of it is true."""


class Hands:
    """Writes to the management cluster, and to the workload cluster of a pool."""

    def __init__(self, api: client.Client, version: str) -> None:
        self._api = api.written_by("windlass")
        self._applier = api.written_by(names.MACHINE_MANAGER)
        self._version = version

    async def carry_out(self, wanted: plan.Plan, before: facts.Pool, workload: client.Client | None) -> Outcome:
        """Steps first, then the pool: what it says is then true, or about to be."""
        failures = []
        is_outdated = is_written = False
        for step in wanted.steps:
            try:
                await self._do(step, before, workload)
            except errors.NotFound:
                continue  # gone meanwhile: the next pass sees it
            except errors.Conflict:
                is_outdated = True
            except errors.KubeError as error:
                failures.append(str(error))
        try:
            await self._write(before, _without_progress(wanted.pool, before) if failures else wanted.pool)
            is_written = True
        except errors.NotFound:
            is_written = True  # gone meanwhile
        except errors.Conflict:
            is_outdated = True
        except errors.KubeError as error:
            failures.append(str(error))
        return Outcome(tuple(failures), is_outdated, is_written)

    async def _write(self, before: facts.Pool, after: facts.Pool) -> None:
        main, status = report.patch(before, after)
        resource = models.machine_pools(self._version)
        version = before.resource_version
        is_going = before.is_deleting and names.FINALIZER not in after.finalizers
        if main:
            body = {**main, "metadata": {**main.get("metadata", {}), "resourceVersion": version}}
            written = await self._api.merge_patch(resource, before.name, body, before.namespace)
            version = written["metadata"]["resourceVersion"]
        if status and not is_going:
            body = {**status, "metadata": {"resourceVersion": version}}
            await self._api.merge_patch(resource, before.name, body, before.namespace, subresource="status")

    async def _do(self, step: plan.Step, pool: facts.Pool, workload: client.Client | None) -> None:
        match step:
            case plan.Adopt():
                await self._adopt(step, pool)
            case plan.DeleteExternal(external):
                how = prepare.Deletion(uid=external.uid)
                await self._api.delete(_resource(external), external.reference.name, pool.namespace, how)
            case plan.ApplyMachine():
                await self._applier.apply(models.machines(self._version), step.body, force=True)
            case plan.MarkMachine():
                await self._mark_machine(step, pool)
            case plan.PatchNode() if workload is not None:
                await _patch_node(step, workload)
            case plan.DeleteNode(name, uid) if workload is not None:
                await workload.delete(NODES, name, how=prepare.Deletion(uid=uid))

    async def _adopt(self, step: plan.Adopt, pool: facts.Pool) -> None:
        external = step.external
        metadata: dict[str, Any] = {
            "resourceVersion": external.resource_version,
            "ownerReferences": [ownership.spell(owner) for owner in step.owners],
        }
        if step.labels:
            metadata["labels"] = dict(step.labels)
        name = external.reference.name
        await self._api.merge_patch(_resource(external), name, {"metadata": metadata}, pool.namespace)

    async def _mark_machine(self, step: plan.MarkMachine, pool: facts.Pool) -> None:
        """By server-side apply: the other conditions are the Machine controller's, who writes them all the time."""
        resource = models.machines(self._version)
        now = self._api.clock.now_s()
        condition = dataclasses.replace(step.condition, since=report.spell_time(now))
        status: dict[str, Any] = {"conditions": report.spell_conditions([condition])}
        if resource.api_version == names.V1BETA1:
            status = {"v1beta2": status}
        body = {"metadata": {"name": step.name, "namespace": pool.namespace}, "status": status}
        await self._applier.apply(resource, body, subresource="status", force=True)


async def _patch_node(step: plan.PatchNode, workload: client.Client) -> None:
    body: dict[str, Any] = (
        {"metadata": {"annotations": dict(step.annotations)}} if step.annotations else {"metadata": {}}
    )
    if step.taints is not None:
        # Taints are one list: only the one that was looked at may be replaced.
        body["spec"] = {"taints": [dict(taint.body) for taint in step.taints] or None}
        body["metadata"]["resourceVersion"] = step.node.resource_version
    await workload.merge_patch(NODES, step.node.name, body)


def _without_progress(after: facts.Pool, before: facts.Pool) -> facts.Pool:
    """What was to be done is not done: the generation is not dealt with, and a finalizer stays."""
    status = dataclasses.replace(after.status, observed_generation=before.status.observed_generation)
    return dataclasses.replace(after, status=status, finalizers=before.finalizers or after.finalizers)


def _resource(external: facts.External) -> Resource[dict[str, Any]]:
    return Resource(external.api_version, external.plural, external.reference.kind, True, dict[str, Any])
