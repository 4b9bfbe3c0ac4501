"""CapacityBuffers: informers, reader and status controller.

Writes the managed PodTemplates and statuses, and gives the buffer pods to the loop. ResourceQuotas limit buffers.
"""

import functools
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from windlass import clock, errors, klog
from windlass.autoscaler import informer_sinks
from windlass.autoscaler.capacity_apis import buffer_templates, provisioning_requests
from windlass.autoscaler.capacity_apis.provisioning_requests import NotifyingSinkFactory
from windlass.autoscaler.readers import pods
from windlass.engine.capacity_apis import buffer_pods, capacity_buffer
from windlass.engine.capacity_apis.capacity_buffer import (
    BufferStatus,
    CapacityBuffer,
    QuotaScope,
    ResolvedTemplate,
    ResourceQuota,
    SamplePod,
    ScalableRef,
)
from windlass.engine.model import facts, provisioning, settings, well_known
from windlass.engine.model.provisioning import Condition
from windlass.engine.model.settings import InjectionSettings
from windlass.klog import ErrorPlace
from windlass.kube import client, fields, informers, resources
from windlass.kube import errors as kube_errors
from windlass.kube.models import autoscaling, meta
from windlass.kube.models import pods as pod_models
from windlass.quantity import Quantity

BUFFER_API_VERSION = "autoscaling.x-k8s.io/v1beta1"

BUFFER_KIND = "CapacityBuffer"

Json = dict[str, Any]


def read_buffer(found: autoscaling.CapacityBuffer) -> CapacityBuffer:
    """InvalidObject if its limits cannot be read."""
    metadata, spec = found.meta, found.spec or autoscaling.CapacityBufferSpec()
    target = spec.scalable_ref
    try:
        limits = None if spec.limits is None else read_amounts(spec.limits, "spec.limits")
    except fields.InvalidField as error:
        raise error.of(BUFFER_KIND, metadata.key) from error
    return CapacityBuffer(
        metadata.namespace or "",
        metadata.name or "",
        metadata.uid or "",
        metadata.generation or 0,
        meta.seconds(metadata.creation_timestamp) or 0.0,
        spec.provisioning_strategy,
        spec.pod_template_ref.name if spec.pod_template_ref else None,
        ScalableRef(target.api_group or "", target.kind or "", target.name or "") if target else None,
        spec.replicas,
        spec.percentage,
        limits,
        _read_status(found.status or autoscaling.CapacityBufferStatus()),
    )


def _read_status(found: autoscaling.CapacityBufferStatus) -> BufferStatus:
    said = tuple(
        Condition(
            one.type or "",
            one.status or "",
            one.reason or "",
            one.message or "",
            meta.seconds(one.last_transition_time) or 0.0,
            one.observed_generation,
        )
        for one in found.conditions or ()
    )
    template = found.pod_template_ref.name if found.pod_template_ref else None
    return BufferStatus(template, found.pod_template_generation, found.replicas, found.provisioning_strategy, said)


def read_resource_quota(found: Mapping[str, Any]) -> ResourceQuota:
    spec, status = found.get("spec") or {}, found.get("status") or {}
    scopes = [QuotaScope(name) for name in spec.get("scopes") or ()]
    scopes += [
        QuotaScope(one.get("scopeName", ""), one.get("operator", ""), tuple(one.get("values") or ()))
        for one in (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    ]
    hard, used = (read_amounts(status.get(part) or {}, f"status.{part}") for part in ("hard", "used"))
    return ResourceQuota(found["metadata"]["name"], hard, used, tuple(scopes))


def read_amounts(found: Mapping[str, Any], at: str) -> dict[str, Quantity]:
    return {name: fields.read_quantity(value, f"{at}[{name}]") for name, value in found.items()}


def make_buffer_pods(one: CapacityBuffer, template: Mapping[str, Any], count: int) -> provisioning.BufferPods:
    """The pods that a buffer keeps room for. InvalidObject if they cannot be read."""
    told, spec = template.get("metadata") or {}, dict(template.get("spec") or {})
    spec.pop("nodeName", None)
    metadata = meta.ObjectMeta(
        name=one.name,
        namespace=one.namespace,
        labels=told.get("labels"),
        annotations=told.get("annotations"),
        owner_references=[
            meta.OwnerReference(
                api_version=BUFFER_API_VERSION, kind=BUFFER_KIND, name=one.name, uid=one.uid, controller=True
            )
        ],
    )
    raw = msgspec.Raw(msgspec.json.encode(spec))
    pod: facts.Pod = pods.read_pod(pod_models.Pod(metadata=metadata, spec=raw), pending=True)
    mine = {
        **pod.annotations,
        buffer_pods.FAKE_POD_ANNOTATION[0]: buffer_pods.FAKE_POD_ANNOTATION[1],
        well_known.SAFE_TO_EVICT_ANNOTATION: "true",
    }
    return provisioning.BufferPods(replace(pod, annotations=mine), tuple(buffer_pods.name_buffer_pods(one, count)))


RESOURCE_QUOTAS = resources.Resource("v1", "resourcequotas", "ResourceQuota", True, dict[str, Any])

_log = logging.getLogger(__name__)


class CapacityBuffers:
    """All of them, as they are now."""

    def __init__(self) -> None:
        self._buffers: informer_sinks.FactCache[CapacityBuffer] = informer_sinks.FactCache()
        self._templates: informer_sinks.FactCache[Json] = informer_sinks.FactCache()
        self._quotas: informer_sinks.FactCache[Json] = informer_sinks.FactCache()
        self._informers: tuple[informers.Informer[Any], ...] = ()
        self._spares: tuple[tuple[object, ...], tuple[provisioning.BufferPods, ...]] = ((), ())
        self._applied: dict[str, tuple[Json, str]] = {}
        self._completing = buffer_templates.TemplateDefaulter()
        self._reconciled_s: dict[str, float] | None = None
        """When each buffer's status was last brought up to date, by uid; None before any was."""

    def make_informers(
        self, api: client.Client, behind: informer_sinks.ChangeBuffer, heard: NotifyingSinkFactory
    ) -> Iterator[informers.Informer[Any]]:
        def make(
            resource: resources.Resource[Any], kept: informer_sinks.FactCache[Any], read: Any
        ) -> informers.Informer[Any]:
            return informers.Informer(
                api, resource, heard(informer_sinks.plain_sink(kept, read, behind), resource.kind)
            )

        self._informers = (
            make(resources.POD_TEMPLATES.untyped(), self._templates, _identity),
            make(RESOURCE_QUOTAS, self._quotas, _identity),
            make(resources.CAPACITY_BUFFERS, self._buffers, read_buffer),
        )
        yield from self._informers

    def observe(self) -> tuple[provisioning.BufferPods, ...]:
        """The pods to keep room for, as statuses say. The same object while nothing changes."""
        known = (self._buffers.all, self._templates.all)
        before, spares = self._spares
        if len(before) != 2 or before[0] is not known[0] or before[1] is not known[1]:
            spares = tuple(self._make_buffer_pods())
            self._spares = known, spares
        return spares

    def _make_buffer_pods(self) -> Iterator[provisioning.BufferPods]:
        known, left = self._index_templates(), settings.MAX_INJECTED_PODS
        for one in self._buffers.all:
            try:
                find_generation = functools.partial(_template_generation, known, one)
                count = buffer_pods.inject_buffer(one, find_generation, 0.0).pods
                if count > left or count < (one.status.replicas or 0):
                    kept, wanted = min(count, left), one.status.replicas
                    _log.warning("CapacityBuffer %s: keeping room for %d pods only: replicas=%d", one.key, kept, wanted)
                count = min(count, left)
                left -= count
                if count:
                    template = known[f"{one.namespace}/{one.status.pod_template}"]["template"]
                    yield make_buffer_pods(one, template, count)
            except errors.InvalidObject as error:
                _log.warning("CapacityBuffer %s: %s", one.key, error)
            except Exception as error:  # whatever it is, it costs this buffer
                klog.report_error(ErrorPlace.DECISION, f"CapacityBuffer {one.key}", klog.describe_error(error), error)

    def _index_templates(self) -> dict[str, Json]:
        return {f"{one['metadata']['namespace']}/{one['metadata']['name']}": one for one in self._templates.all}

    # Their status

    async def reconcile(self, api: client.Client, chosen: InjectionSettings, now_s: float) -> None:
        """Bring every status to what it should be."""
        if not all(one.synced or isinstance(one.last_error, kube_errors.NotFound) for one in self._informers):
            return  # quotas that nobody serves limit nobody
        reconciled = self._reconciled_s or {}
        self._reconciled_s = {one.uid: reconciled[one.uid] for one in self._buffers.all if one.uid in reconciled}
        for namespace in sorted({one.namespace for one in self._buffers.all}):
            found = [one for one in self._buffers.all if one.namespace == namespace]
            what: dict[str, ResolvedTemplate | str] = {}
            for one in found:
                if one.is_ours and (kept := await self._resolve(api, one, chosen, now_s)) is not None:
                    what[one.key] = kept
            quotas = [read_resource_quota(one) for one in self._quotas.all if one["metadata"]["namespace"] == namespace]
            statuses = capacity_buffer.reconcile_buffers(found, what, quotas, float(int(now_s))).statuses
            for one in found:
                status = statuses.get(one.key, one.status)
                if chosen.capacity_buffer_pod_injection_enabled:
                    status = self._inject(one, status, what.get(one.key), now_s)
                await _write_status(api, one, status)
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

    async def _resolve(
        self, api: client.Client, one: CapacityBuffer, chosen: InjectionSettings, now_s: float
    ) -> ResolvedTemplate | str | None:
        """What it keeps room for, or why that cannot be had; None if it does not say."""
        if one.template is not None:
            source = self._index_templates().get(f"{one.namespace}/{one.template}")
            if source is None:
                return f'capacity buffer client can\'t get pod template: podtemplates "{one.template}" not found'
            found, fault = buffer_templates.ScalableWorkload(source["template"], None), "failed to create fake pod"
        elif one.scalable is not None:
            resolved = await buffer_templates.resolve_workload(api, one.namespace, one.scalable)
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
        self,
        api: client.Client,
        one: CapacityBuffer,
        found: buffer_templates.ScalableWorkload,
        chosen: InjectionSettings,
        now_s: float,
    ) -> Json:
        if found.is_of_pod:
            return found.template
        if chosen.capacity_buffer_pod_dry_run_enabled:
            return await self._completing.complete(api, one.key, one.namespace, found.template, now_s)
        return buffer_templates.default_template(found.template)

    async def _ensure(
        self, api: client.Client, one: CapacityBuffer, template: Json, replicas: int | None
    ) -> ResolvedTemplate | str:
        """Write the buffer's own template, unless it is as it was written the last time."""
        name = capacity_buffer.pod_template_name(one)
        known = self._index_templates().get(f"{one.namespace}/{name}")
        applied, version = self._applied.get(one.key, ({}, ""))
        try:
            if known is None or applied != template or known["metadata"].get("resourceVersion") != version:
                known = await api.apply(
                    resources.POD_TEMPLATES.untyped(), _managed_template(one, name, template), force=True
                )
                self._applied[one.key] = template, known["metadata"].get("resourceVersion", "")
            sample: SamplePod = buffer_templates.read_sample(known["template"]["spec"])
        except (kube_errors.KubeError, ValueError) as error:
            return f"failed to create or update managed pod template: {error}"
        return ResolvedTemplate(sample, known["metadata"].get("generation", 0), replicas)

    def _inject(
        self, one: CapacityBuffer, status: BufferStatus, kept: ResolvedTemplate | str | None, now_s: float
    ) -> BufferStatus:
        """The status, with what it says of the room that is kept."""
        known, written = self._index_templates(), kept.generation if isinstance(kept, ResolvedTemplate) else None
        return buffer_pods.inject_buffer(
            replace(one, status=status),
            lambda name: _template_generation(known, one, name) if written is None else written,
            float(int(now_s)),
        ).status


async def _write_status(api: client.Client, one: CapacityBuffer, status: BufferStatus) -> None:
    if status == one.status:
        return
    try:
        patch = {"status": buffer_status_to_json(status)}
        await api.merge_patch(resources.CAPACITY_BUFFERS, one.name, patch, one.namespace, subresource="status")
    except kube_errors.KubeError as error:
        _log.warning("CapacityBuffer %s: its status cannot be written: %s", one.key, error)


async def run_buffer_controller(
    api: client.Client, known: CapacityBuffers, chosen: InjectionSettings, time: clock.Clock, every_s: float
) -> None:
    """Until cancelled."""
    while True:
        try:
            await known.reconcile(api, chosen, time.now_s())
        except Exception:
            _log.exception("the status of CapacityBuffers cannot be kept")
        await time.sleep(every_s)


def buffer_status_to_json(status: BufferStatus) -> Json:
    """What is None is taken out."""
    return {
        "podTemplateRef": None if status.pod_template is None else {"name": status.pod_template},
        "podTemplateGeneration": status.pod_template_generation,
        "replicas": status.replicas,
        "provisioningStrategy": status.strategy,
        "conditions": [provisioning_requests.condition_to_json(one) for one in status.conditions],
    }


def _managed_template(one: CapacityBuffer, name: str, template: Json) -> Json:
    owner = {
        "apiVersion": BUFFER_API_VERSION,
        "kind": BUFFER_KIND,
        "name": one.name,
        "uid": one.uid,
        "controller": True,
    }
    metadata = {"name": name, "namespace": one.namespace, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template}


def _template_generation(known: Mapping[str, Json], one: CapacityBuffer, name: str) -> int | None:
    found = known.get(f"{one.namespace}/{name}")
    return None if found is None else found["metadata"].get("generation", 0)


def _identity(found: Json) -> Json:
    return found
