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
from windlass.engine.capacity_apis import capacity_buffer
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


def read_buffer(api_buffer: autoscaling.CapacityBuffer) -> CapacityBuffer:
    """Read a CapacityBuffer. InvalidObject if its limits cannot be read."""
    metadata, spec = api_buffer.meta, api_buffer.spec or autoscaling.CapacityBufferSpec()
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
        _read_status(api_buffer.status or autoscaling.CapacityBufferStatus()),
    )


def _read_status(capacity_buffer_status: autoscaling.CapacityBufferStatus) -> BufferStatus:
    conditions = tuple(
        Condition(
            condition.type or "",
            condition.status or "",
            condition.reason or "",
            condition.message or "",
            meta.seconds(condition.last_transition_time) or 0.0,
            condition.observed_generation,
        )
        for condition in capacity_buffer_status.conditions or ()
    )
    template = capacity_buffer_status.pod_template_ref.name if capacity_buffer_status.pod_template_ref else None
    return BufferStatus(
        template,
        capacity_buffer_status.pod_template_generation,
        capacity_buffer_status.replicas,
        capacity_buffer_status.provisioning_strategy,
        conditions,
    )


def read_resource_quota(quota: Mapping[str, Any]) -> ResourceQuota:
    spec, status = quota.get("spec") or {}, quota.get("status") or {}
    scopes = [QuotaScope(name) for name in spec.get("scopes") or ()]
    scopes += [
        QuotaScope(item.get("scopeName", ""), item.get("operator", ""), tuple(item.get("values") or ()))
        for item in (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    ]
    hard, used = (read_amounts(status.get(part) or {}, f"status.{part}") for part in ("hard", "used"))
    return ResourceQuota(quota["metadata"]["name"], hard, used, tuple(scopes))


def read_amounts(found: Mapping[str, Any], at: str) -> dict[str, Quantity]:
    return {name: fields.read_quantity(value, f"{at}[{name}]") for name, value in found.items()}


def make_buffer_pods(buffer: CapacityBuffer, template: Mapping[str, Any], count: int) -> provisioning.BufferPods:
    """Return the placeholder pods of a buffer. InvalidObject if they cannot be read."""
    told, spec = template.get("metadata") or {}, dict(template.get("spec") or {})
    spec.pop("nodeName", None)
    metadata = meta.ObjectMeta(
        name=buffer.name,
        namespace=buffer.namespace,
        labels=told.get("labels"),
        annotations=told.get("annotations"),
        owner_references=[
            meta.OwnerReference(
                api_version=BUFFER_API_VERSION, kind=BUFFER_KIND, name=buffer.name, uid=buffer.uid, controller=True
            )
        ],
    )
    raw = msgspec.Raw(msgspec.json.encode(spec))
    pod: facts.Pod = pods.read_pod(pod_models.Pod(metadata=metadata, spec=raw), pending=True, cloud_tpus=False)
    mine = {
        **pod.annotations,
        capacity_buffer.FAKE_POD_ANNOTATION[0]: capacity_buffer.FAKE_POD_ANNOTATION[1],
        well_known.SAFE_TO_EVICT_ANNOTATION: "true",
    }
    return provisioning.BufferPods(
        replace(pod, annotations=mine), tuple(capacity_buffer.name_buffer_pods(buffer, count))
    )


RESOURCE_QUOTAS = resources.Resource("v1", "resourcequotas", "ResourceQuota", True, dict[str, Any])

_log = logging.getLogger(__name__)


class CapacityBuffers:
    """All CapacityBuffers, kept current by informers."""

    def __init__(self) -> None:
        self._buffers: informer_sinks.FactCache[CapacityBuffer] = informer_sinks.FactCache()
        self._templates: informer_sinks.FactCache[Json] = informer_sinks.FactCache()
        self._quotas: informer_sinks.FactCache[Json] = informer_sinks.FactCache()
        self._informers: tuple[informers.Informer[Any], ...] = ()
        self._buffer_pods: tuple[tuple[object, ...], tuple[provisioning.BufferPods, ...]] = ((), ())
        self._applied: dict[str, tuple[Json, str]] = {}
        self._completing = buffer_templates.TemplateDefaulter()
        self._reconciled_s: dict[str, float] | None = None
        """Monotonic time of the last reconciliation of each buffer, by uid; None before the first one."""

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
        """Return the buffer pods that statuses ask for. The same object while nothing changes."""
        known = (self._buffers.all, self._templates.all)
        before, buffer_pods = self._buffer_pods
        if len(before) != 2 or before[0] is not known[0] or before[1] is not known[1]:
            buffer_pods = tuple(self._make_buffer_pods())
            self._buffer_pods = known, buffer_pods
        return buffer_pods

    def _make_buffer_pods(self) -> Iterator[provisioning.BufferPods]:
        known, remaining = self._index_templates(), settings.MAX_INJECTED_PODS
        for buffer in self._buffers.all:
            try:
                find_generation = functools.partial(_template_generation, known, buffer)
                count = capacity_buffer.inject_buffer(buffer, find_generation, 0.0).pods
                if count > remaining or count < (buffer.status.replicas or 0):
                    _log.warning(
                        "CapacityBuffer is limited: buffer=%s replicas=%d injected_pods=%d",
                        buffer.key,
                        buffer.status.replicas or 0,
                        min(count, remaining),
                    )
                count = min(count, remaining)
                remaining -= count
                if count:
                    template = known[f"{buffer.namespace}/{buffer.status.pod_template}"]["template"]
                    yield make_buffer_pods(buffer, template, count)
            except errors.InvalidObject as error:
                _log.warning("ignored invalid CapacityBuffer: buffer=%s error=%s", buffer.key, error)
            except Exception as error:  # any error affects this buffer only
                klog.report_error(
                    ErrorPlace.DECISION, f"CapacityBuffer {buffer.key}", klog.describe_error(error), error
                )

    def _index_templates(self) -> dict[str, Json]:
        return {f"{item['metadata']['namespace']}/{item['metadata']['name']}": item for item in self._templates.all}

    # Status

    async def reconcile(self, api: client.Client, injection_settings: InjectionSettings, now_s: float) -> None:
        """Reconcile the status of every buffer."""
        if not all(
            informer.synced or isinstance(informer.last_error, kube_errors.NotFound) for informer in self._informers
        ):
            return  # without the CRD, quotas limit nothing
        reconciled = self._reconciled_s or {}
        self._reconciled_s = {
            buffer.uid: reconciled[buffer.uid] for buffer in self._buffers.all if buffer.uid in reconciled
        }
        for namespace in sorted({buffer.namespace for buffer in self._buffers.all}):
            buffers = [buffer for buffer in self._buffers.all if buffer.namespace == namespace]
            what: dict[str, ResolvedTemplate | str] = {}
            for one in buffers:
                if one.is_ours and (kept := await self._resolve(api, one, injection_settings, now_s)) is not None:
                    what[one.key] = kept
            quotas = [
                read_resource_quota(item) for item in self._quotas.all if item["metadata"]["namespace"] == namespace
            ]
            statuses = capacity_buffer.reconcile_buffers(buffers, what, quotas, float(int(now_s))).statuses
            for one in buffers:
                status = statuses.get(one.key, one.status)
                if injection_settings.capacity_buffer_pod_injection_enabled:
                    status = self._inject(one, status, what.get(one.key), now_s)
                await _write_status(api, one, status)
                self._reconciled_s[one.uid] = now_s

    def find_oldest_reconciled_s(self, now_s: float) -> Mapping[bool, float]:
        """Return the reconciliation time of the buffer that has waited longest (False), and the creation time of the
        oldest buffer that was never reconciled (True); now, where none waits. Empty before the first reconciliation.
        """
        if self._reconciled_s is None:
            return {}
        oldest = {True: now_s, False: now_s}
        for buffer in self._buffers.all:
            if buffer.is_ours and buffer.uid in self._reconciled_s:
                oldest[False] = min(oldest[False], self._reconciled_s[buffer.uid])
            elif buffer.is_ours and not buffer.status.conditions:  # others were reconciled by an earlier process
                oldest[True] = min(oldest[True], buffer.created_s)
        return oldest

    async def _resolve(
        self, api: client.Client, buffer: CapacityBuffer, injection_settings: InjectionSettings, now_s: float
    ) -> ResolvedTemplate | str | None:
        """Resolve the pod template of a buffer: the workload, or the reason why it cannot be resolved; None without a
        reference.
        """
        if buffer.template is not None:
            source = self._index_templates().get(f"{buffer.namespace}/{buffer.template}")
            if source is None:
                return f'capacity buffer client can\'t get pod template: podtemplates "{buffer.template}" not found'
            scalable_workload, fault = (
                buffer_templates.ScalableWorkload(source["template"], None),
                "failed to create fake pod",
            )
        elif buffer.scalable is not None:
            resolved = await buffer_templates.resolve_workload(api, buffer.namespace, buffer.scalable)
            if isinstance(resolved, str):
                return resolved
            scalable_workload, fault = resolved, "failed to resolve pod spec"
        else:
            return None
        try:
            template = await self._complete(api, buffer, scalable_workload, injection_settings, now_s)
        except kube_errors.KubeError as error:
            return f"{fault}: {error}"
        return await self._ensure(api, buffer, template, scalable_workload.replicas)

    async def _complete(
        self,
        api: client.Client,
        buffer: CapacityBuffer,
        scalable_workload: buffer_templates.ScalableWorkload,
        injection_settings: InjectionSettings,
        now_s: float,
    ) -> Json:
        if scalable_workload.is_of_pod:
            return scalable_workload.template
        if injection_settings.capacity_buffer_pod_dry_run_enabled:
            return await self._completing.complete(api, buffer.key, buffer.namespace, scalable_workload.template, now_s)
        return buffer_templates.default_template(scalable_workload.template)

    async def _ensure(
        self, api: client.Client, buffer: CapacityBuffer, template: Json, replicas: int | None
    ) -> ResolvedTemplate | str:
        """Create or update the managed PodTemplate of a buffer, unless it is as last written."""
        name = capacity_buffer.pod_template_name(buffer)
        known = self._index_templates().get(f"{buffer.namespace}/{name}")
        applied, version = self._applied.get(buffer.key, ({}, ""))
        try:
            if known is None or applied != template or known["metadata"].get("resourceVersion") != version:
                known = await api.apply(
                    resources.POD_TEMPLATES.untyped(), _managed_template(buffer, name, template), force=True
                )
                self._applied[buffer.key] = template, known["metadata"].get("resourceVersion", "")
            sample: SamplePod = buffer_templates.read_sample(known["template"]["spec"])
        except (kube_errors.KubeError, ValueError) as error:
            return f"failed to create or update managed pod template: {error}"
        return ResolvedTemplate(sample, known["metadata"].get("generation", 0), replicas)

    def _inject(
        self, buffer: CapacityBuffer, status: BufferStatus, kept: ResolvedTemplate | str | None, now_s: float
    ) -> BufferStatus:
        """Return the status with the condition of pod injection."""
        known, written = self._index_templates(), kept.generation if isinstance(kept, ResolvedTemplate) else None
        return capacity_buffer.inject_buffer(
            replace(buffer, status=status),
            lambda name: _template_generation(known, buffer, name) if written is None else written,
            float(int(now_s)),
        ).status


async def _write_status(api: client.Client, buffer: CapacityBuffer, status: BufferStatus) -> None:
    if status == buffer.status:
        return
    try:
        patch = {"status": buffer_status_to_json(status)}
        await api.merge_patch(resources.CAPACITY_BUFFERS, buffer.name, patch, buffer.namespace, subresource="status")
    except kube_errors.KubeError as error:
        _log.warning("failed to write CapacityBuffer status: buffer=%s error=%s", buffer.key, error)


async def run_buffer_controller(
    api: client.Client,
    capacity_buffers: CapacityBuffers,
    injection_settings: InjectionSettings,
    time: clock.Clock,
    every_s: float,
) -> None:
    """Run the CapacityBuffer status controller until cancelled."""
    while True:
        try:
            await capacity_buffers.reconcile(api, injection_settings, time.now_s())
        except Exception:
            _log.exception("failed to update CapacityBuffer statuses: retry_s=%g", every_s)
        await time.sleep(every_s)


def buffer_status_to_json(status: BufferStatus) -> Json:
    """Return the status as JSON; None removes a field."""
    return {
        "podTemplateRef": None if status.pod_template is None else {"name": status.pod_template},
        "podTemplateGeneration": status.pod_template_generation,
        "replicas": status.replicas,
        "provisioningStrategy": status.strategy,
        "conditions": [provisioning_requests.condition_to_json(condition) for condition in status.conditions],
    }


def _managed_template(buffer: CapacityBuffer, name: str, template: Json) -> Json:
    owner = {
        "apiVersion": BUFFER_API_VERSION,
        "kind": BUFFER_KIND,
        "name": buffer.name,
        "uid": buffer.uid,
        "controller": True,
    }
    metadata = {"name": name, "namespace": buffer.namespace, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template}


def _template_generation(known: Mapping[str, Json], buffer: CapacityBuffer, name: str) -> int | None:
    found = known.get(f"{buffer.namespace}/{name}")
    return None if found is None else found["metadata"].get("generation", 0)


def _identity(obj: Json) -> Json:
    return obj
