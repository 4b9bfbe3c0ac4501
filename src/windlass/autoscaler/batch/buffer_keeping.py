"""CapacityBuffers: followed, their own pod templates written, their status kept, and their pods given to the loop."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from windlass import clock, errors, unexpected
from windlass.autoscaler.batch import answering, buffer_reading, completing, samples, workloads
from windlass.autoscaler.batch.following import Heard
from windlass.autoscaler.observe import gate, sinks
from windlass.engine import imagined_pods
from windlass.engine.buffers import injecting, reconciling
from windlass.engine.buffers.buffer import Buffer, Sample, Status
from windlass.engine.buffers.reconciling import Found
from windlass.engine.settings import Injection
from windlass.kube import client, informers, resources
from windlass.kube import errors as kube_errors
from windlass.unexpected import Place

RESOURCE_QUOTAS = resources.Resource("v1", "resourcequotas", "ResourceQuota", True, dict[str, Any])
_log = logging.getLogger(__name__)
Json = dict[str, Any]


class Buffers:
    """All of them, as they are now."""

    def __init__(self) -> None:
        self._buffers: sinks.Kept[Buffer] = sinks.Kept()
        self._templates: sinks.Kept[Json] = sinks.Kept()
        self._quotas: sinks.Kept[Json] = sinks.Kept()
        self._informers: tuple[informers.Informer[Any], ...] = ()
        self._spares: tuple[tuple[object, ...], tuple[injecting.Spare, ...]] = ((), ())
        self._applied: dict[str, tuple[Json, str]] = {}
        self._completing = completing.Completing()
        self._reconciled_s: dict[str, float] | None = None
        """When each buffer's status was last brought up to date, by uid; None before any was."""

    def follow(self, api: client.Client, behind: gate.Gate, heard: Heard) -> Iterator[informers.Informer[Any]]:
        def make(resource: resources.Resource[Any], kept: sinks.Kept[Any], read: Any) -> informers.Informer[Any]:
            return informers.Informer(api, resource, heard(sinks.plain_sink(kept, read, behind), resource.kind))

        self._informers = (
            make(resources.POD_TEMPLATES.untyped(), self._templates, _keep),
            make(RESOURCE_QUOTAS, self._quotas, _keep),
            make(resources.CAPACITY_BUFFERS, self._buffers, buffer_reading.read),
        )
        yield from self._informers

    def observe(self) -> tuple[injecting.Spare, ...]:
        """The pods to keep room for, as statuses say. The same object while nothing changes."""
        known = (self._buffers.all, self._templates.all)
        before, spares = self._spares
        if len(before) != 2 or before[0] is not known[0] or before[1] is not known[1]:
            spares = tuple(self._find_spares())
            self._spares = known, spares
        return spares

    def _find_spares(self) -> Iterator[injecting.Spare]:
        known, left = self._index_templates(), imagined_pods.MAX_PODS
        for one in self._buffers.all:
            try:
                count = injecting.inject(one, lambda name, of=one: _generation(known, of, name), 0.0).pods  # type: ignore[misc]
                if count > left or count < (one.status.replicas or 0):
                    kept, wanted = min(count, left), one.status.replicas
                    _log.warning("CapacityBuffer %s: keeping room for %d pods only: replicas=%d", one.key, kept, wanted)
                count = min(count, left)
                left -= count
                if count:
                    template = known[f"{one.namespace}/{one.status.pod_template}"]["template"]
                    yield buffer_reading.make_spare(one, template, count)
            except errors.InvalidObject as error:
                _log.warning("CapacityBuffer %s: %s", one.key, error)
            except Exception as error:  # whatever it is, it costs this buffer
                unexpected.report(Place.DECISION, f"CapacityBuffer {one.key}", unexpected.describe(error), error)

    def _index_templates(self) -> dict[str, Json]:
        return {f"{one['metadata']['namespace']}/{one['metadata']['name']}": one for one in self._templates.all}

    # Their status

    async def keep(self, api: client.Client, chosen: Injection, now_s: float) -> None:
        """Bring every status to what it should be."""
        if not all(one.synced or isinstance(one.trouble, kube_errors.NotFound) for one in self._informers):
            return  # quotas that nobody serves limit nobody
        reconciled = self._reconciled_s or {}
        self._reconciled_s = {one.uid: reconciled[one.uid] for one in self._buffers.all if one.uid in reconciled}
        for namespace in sorted({one.namespace for one in self._buffers.all}):
            found = [one for one in self._buffers.all if one.namespace == namespace]
            what: dict[str, Found | str] = {}
            for one in found:
                if one.is_ours and (kept := await self._resolve(api, one, chosen, now_s)) is not None:
                    what[one.key] = kept
            quotas = [
                buffer_reading.read_quota(one) for one in self._quotas.all if one["metadata"]["namespace"] == namespace
            ]
            statuses = reconciling.reconcile(found, what, quotas, float(int(now_s))).statuses
            for one in found:
                status = statuses.get(one.key, one.status)
                if chosen.capacity_buffer_pod_injection_enabled:
                    status = self._inject(one, status, what.get(one.key), now_s)
                await _write(api, one, status)
                self._reconciled_s[one.uid] = now_s

    def find_oldest_reconciled_s(self, now_s: float) -> Mapping[bool, float]:
        """When the buffer was reconciled that waits longest for the next time, and (True) when the oldest of those was
        created that never were; now, where none waits. Empty before any was reconciled.
        """
        if self._reconciled_s is None:
            return {}
        oldest = {True: now_s, False: now_s}
        for one in self._buffers.all:
            if one.is_ours and one.uid in self._reconciled_s:
                oldest[False] = min(oldest[False], self._reconciled_s[one.uid])
            elif one.is_ours and not one.status.conditions:  # others were reconciled by a process before this one
                oldest[True] = min(oldest[True], one.created_s)
        return oldest

    async def _resolve(self, api: client.Client, one: Buffer, chosen: Injection, now_s: float) -> Found | str | None:
        """What it keeps room for, or why that cannot be had; None if it does not say."""
        if one.template is not None:
            source = self._index_templates().get(f"{one.namespace}/{one.template}")
            if source is None:
                return f'capacity buffer client can\'t get pod template: podtemplates "{one.template}" not found'
            found, fault = workloads.Workload(source["template"], None), "failed to create fake pod"
        elif one.scalable is not None:
            resolved = await workloads.resolve(api, one.namespace, one.scalable)
            if isinstance(resolved, str):
                return resolved
            found, fault = resolved, "failed to resolve pod spec"
        else:
            return None
        try:
            template = await self._complete(api, one, found, chosen, now_s)
        except kube_errors.KubeError as error:
            return f"{fault}: {error}"
        return await self._ensure(api, one, template, found.replicas)

    async def _complete(
        self, api: client.Client, one: Buffer, found: workloads.Workload, chosen: Injection, now_s: float
    ) -> Json:
        if found.is_of_pod:
            return found.template
        if chosen.capacity_buffer_pod_dry_run_enabled:
            return await self._completing.ask(api, one.key, one.namespace, found.template, now_s)
        return completing.complete(found.template)

    async def _ensure(self, api: client.Client, one: Buffer, template: Json, replicas: int | None) -> Found | str:
        """Write the buffer's own template, unless it is as it was written the last time."""
        name = reconciling.name_template(one)
        known = self._index_templates().get(f"{one.namespace}/{name}")
        applied, version = self._applied.get(one.key, ({}, ""))
        try:
            if known is None or applied != template or known["metadata"].get("resourceVersion") != version:
                known = await api.apply(resources.POD_TEMPLATES.untyped(), _own(one, name, template), force=True)
                self._applied[one.key] = template, known["metadata"].get("resourceVersion", "")
            sample: Sample = samples.read(known["template"]["spec"])
        except (kube_errors.KubeError, ValueError) as error:
            return f"failed to create or update managed pod template: {error}"
        return Found(sample, known["metadata"].get("generation", 0), replicas)

    def _inject(self, one: Buffer, status: Status, kept: Found | str | None, now_s: float) -> Status:
        """The status, with what it says of the room that is kept."""
        known, written = self._index_templates(), kept.generation if isinstance(kept, Found) else None
        return injecting.inject(
            replace(one, status=status),
            lambda name: _generation(known, one, name) if written is None else written,
            float(int(now_s)),
        ).status


async def _write(api: client.Client, one: Buffer, status: Status) -> None:
    if status == one.status:
        return
    try:
        patch = {"status": spell(status)}
        await api.merge_patch(resources.CAPACITY_BUFFERS, one.name, patch, one.namespace, subresource="status")
    except kube_errors.KubeError as error:
        _log.warning("CapacityBuffer %s: its status cannot be written: %s", one.key, error)


async def keep_on(api: client.Client, known: Buffers, chosen: Injection, time: clock.Clock, every_s: float) -> None:
    """Until cancelled."""
    while True:
        try:
            await known.keep(api, chosen, time.now_s())
        except Exception:
            _log.exception("the status of CapacityBuffers cannot be kept")
        await time.sleep(every_s)


def spell(status: Status) -> Json:
    """What is None is taken out."""
    return {
        "podTemplateRef": None if status.pod_template is None else {"name": status.pod_template},
        "podTemplateGeneration": status.pod_template_generation,
        "replicas": status.replicas,
        "provisioningStrategy": status.strategy,
        "conditions": [answering.spell(one) for one in status.conditions],
    }


def _own(one: Buffer, name: str, template: Json) -> Json:
    owner = {
        "apiVersion": buffer_reading.API_VERSION,
        "kind": buffer_reading.KIND,
        "name": one.name,
        "uid": one.uid,
        "controller": True,
    }
    metadata = {"name": name, "namespace": one.namespace, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template}


def _generation(known: Mapping[str, Json], one: Buffer, name: str) -> int | None:
    found = known.get(f"{one.namespace}/{name}")
    return None if found is None else found["metadata"].get("generation", 0)


def _keep(found: Json) -> Json:
    return found
