"""ProvisioningRequests: informers, reader and condition writer.

Pods are made from the PodTemplates that a request names. Conditions are written with the resourceVersion they were
decided on, or not at all. A written request counts before the informer observes it, so that no capacity is promised
twice.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from windlass import errors, klog
from windlass.autoscaler import informer_sinks
from windlass.autoscaler.readers import pods
from windlass.engine.model import facts, plan, settings
from windlass.engine.model.provisioning import (
    CLASS_ANNOTATION,
    CONSUME_ANNOTATION,
    Condition,
    PodSet,
    ProvisioningRequest,
)
from windlass.kube import client, informers, reflector, request_builders, resources, time_formats
from windlass.kube import errors as kube_errors
from windlass.kube.models import autoscaling, meta
from windlass.kube.models import pods as pod_models

PROVISIONING_REQUEST_API_VERSION = "autoscaling.x-k8s.io/v1"

PROVISIONING_REQUEST_KIND = "ProvisioningRequest"


def read_request(provisioning_request: autoscaling.ProvisioningRequest) -> ProvisioningRequest:
    """Read a ProvisioningRequest without its pods."""
    metadata, spec = provisioning_request.meta, provisioning_request.spec or autoscaling.ProvisioningRequestSpec()
    written = (provisioning_request.status.conditions if provisioning_request.status else None) or ()
    return ProvisioningRequest(
        metadata.namespace or "",
        metadata.name or "",
        metadata.uid or "",
        spec.provisioning_class_name or "",
        tuple(_read_pod_set(pod_set) for pod_set in spec.pod_sets or ()),
        spec.parameters or {},
        tuple(_read_condition(condition) for condition in written),
        metadata.generation or 0,
        meta.seconds(metadata.creation_timestamp) or 0.0,
        metadata.resource_version or "",
    )


def _read_pod_set(pod_set: autoscaling.PodSet) -> PodSet:
    return PodSet(
        (pod_set.pod_template_ref.name if pod_set.pod_template_ref else None) or "", max(pod_set.count or 0, 0)
    )


def _read_condition(condition: autoscaling.Condition) -> Condition:
    return Condition(
        condition.type or "",
        condition.status or "",
        condition.reason or "",
        condition.message or "",
        meta.seconds(condition.last_transition_time) or 0.0,
        condition.observed_generation,
    )


def make_pods(request: ProvisioningRequest, known: Mapping[str, pod_models.PodTemplate]) -> ProvisioningRequest:
    """Return the request with pods from the templates that exist. `known`: templates by namespace/name."""
    count = sum(pod_set.count for pod_set in request.pod_sets)
    if count > settings.MAX_INJECTED_PODS:
        fault = f"{count} pods are requested, more than {settings.MAX_INJECTED_PODS}"
        return replace(request, pod_sets=tuple(replace(pod_set, fault=fault) for pod_set in request.pod_sets[:1]))
    made = tuple(
        _make_pod(request, pod_set, known.get(f"{request.namespace}/{pod_set.template}"))
        for pod_set in request.pod_sets
    )
    return replace(request, pod_sets=made)


def _make_pod(request: ProvisioningRequest, pod_set: PodSet, pod_template: pod_models.PodTemplate | None) -> PodSet:
    if pod_template is None:
        return pod_set
    template = pod_template.template or pod_models.PodTemplateSpec()
    try:
        return replace(pod_set, pod=_read_pod(request, template))
    except errors.InvalidObject as error:
        return replace(pod_set, fault=f"{error.field}: found {error.found!r}, expected {error.accepted}")
    except Exception as error:  # any error affects this request only
        message = f"{type(error).__name__}: {klog.describe_error(error)}"
        klog.report_error(
            klog.ErrorPlace.DECISION, f"PodTemplate {request.namespace}/{pod_set.template}", message, error
        )
        return replace(pod_set, fault=f"it cannot be read: {message}")


def _read_pod(request: ProvisioningRequest, template: pod_models.PodTemplateSpec) -> facts.Pod:
    """Read a pod of a template that belongs to the request and was created with it."""
    given = template.metadata or meta.NO_META
    metadata = meta.ObjectMeta(
        name=request.name,
        namespace=request.namespace,
        labels=given.labels,
        annotations={
            **(given.annotations or {}),
            CONSUME_ANNOTATION: request.name,
            CLASS_ANNOTATION: request.class_name,
        },
        owner_references=[
            meta.OwnerReference(
                api_version=PROVISIONING_REQUEST_API_VERSION,
                kind=PROVISIONING_REQUEST_KIND,
                name=request.name,
                uid=request.uid,
                controller=True,
            )
        ],
    )
    pod = pods.read_pod(pod_models.Pod(metadata=metadata, spec=template.spec), pending=True)
    return replace(pod, created_s=request.created_s)


async def write_conditions(api: client.Client, order: plan.SetConditions) -> autoscaling.ProvisioningRequest:
    """Write the conditions. `errors.Conflict` if another client was faster: the next loop decides on the new object."""
    patch = {
        "metadata": {"resourceVersion": order.version},
        "status": {"conditions": [condition_to_json(condition) for condition in order.conditions]},
    }
    return await api.merge_patch(
        resources.PROVISIONING_REQUESTS, order.name, patch, order.namespace, subresource="status"
    )


async def delete_request(api: client.Client, order: plan.DeleteRequest) -> None:
    """Delete the request, unless it is gone or was replaced by another of its name."""
    try:
        await api.delete(
            resources.PROVISIONING_REQUESTS, order.name, order.namespace, request_builders.DeleteOptions(uid=order.uid)
        )
    except (kube_errors.NotFound, kube_errors.Conflict):
        return


def condition_to_json(condition: Condition) -> dict[str, Any]:
    spelled: dict[str, Any] = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": time_formats.format_time(condition.since_s),
    }
    return spelled | (
        {} if condition.observed_generation is None else {"observedGeneration": condition.observed_generation}
    )


NotifyingSinkFactory = Callable[[reflector.Sink[Any], str], reflector.Sink[Any]]
"""Creates a sink that notifies about changes of a kind."""


class ProvisioningRequests:
    """All ProvisioningRequests, kept current by informers."""

    def __init__(self) -> None:
        self._requests: informer_sinks.FactCache[ProvisioningRequest] = informer_sinks.FactCache()
        self._templates: informer_sinks.FactCache[pod_models.PodTemplate] = informer_sinks.FactCache()
        self._written: dict[str, tuple[str, ProvisioningRequest]] = {}
        self._informers: tuple[informers.Informer[Any], ...] = ()
        self._made: dict[str, tuple[ProvisioningRequest, tuple[object, ...], ProvisioningRequest]] = {}
        self._last: tuple[ProvisioningRequest, ...] = ()

    def make_informers(
        self, api: client.Client, behind: informer_sinks.ChangeBuffer, heard: NotifyingSinkFactory
    ) -> Iterator[informers.Informer[Any]]:
        requests = informer_sinks.plain_sink(self._requests, read_request, behind)
        pod_templates = informer_sinks.plain_sink(self._templates, _identity, behind)
        self._informers = (
            informers.Informer(api, resources.POD_TEMPLATES, heard(pod_templates, "PodTemplate")),
            informers.Informer(api, resources.PROVISIONING_REQUESTS, heard(requests, PROVISIONING_REQUEST_KIND)),
        )
        yield from self._informers

    def observe(self) -> tuple[ProvisioningRequest, ...]:
        """Return the requests with their pods; none before all informers are synced, because an unobserved template is
        not a missing one.

        The same object while nothing changes.
        """
        if not all(informer.synced for informer in self._informers):
            return ()
        known = {pod_template.meta.key: pod_template for pod_template in self._templates.all}
        requests = tuple(self._make(self._adopt_written(request), known) for request in self._requests.all)
        self._made = {
            provisioning_request.key: self._made[provisioning_request.key] for provisioning_request in requests
        }
        self._written = {key: item for key, item in self._written.items() if key in self._made}
        if len(requests) != len(self._last) or any(
            one is not other for one, other in zip(requests, self._last, strict=True)
        ):
            self._last = requests
        return self._last

    def note_written(self, order: plan.SetConditions, provisioning_request: autoscaling.ProvisioningRequest) -> None:
        """Adopt the object that the server returned for written conditions."""
        request = read_request(provisioning_request)
        self._written[request.key] = order.version, request

    def _adopt_written(self, request: ProvisioningRequest) -> ProvisioningRequest:
        before, written = self._written.get(request.key, ("", request))
        if request.version == before and request.uid == written.uid:
            return written
        self._written.pop(request.key, None)
        return request

    def _make(self, request: ProvisioningRequest, known: dict[str, pod_models.PodTemplate]) -> ProvisioningRequest:
        """Return the request with its pods, rebuilt only if it or one of its templates changed."""
        named = tuple(known.get(f"{request.namespace}/{pod_set.template}") for pod_set in request.pod_sets)
        asked, used, made = self._made.get(request.key, (None, (), request))
        if asked is request and len(used) == len(named) and all(a is b for a, b in zip(used, named, strict=True)):
            return made
        made = make_pods(request, known)
        self._made[request.key] = request, named, made
        return made


def _identity(pod_template: pod_models.PodTemplate) -> pod_models.PodTemplate:
    return pod_template
