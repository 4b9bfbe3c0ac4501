"""Reading ProvisioningRequests, and the pods that they ask for from the PodTemplates that they name."""

from collections.abc import Mapping
from dataclasses import replace

from windlass import errors, unexpected
from windlass.autoscaler.observe import pods
from windlass.engine import facts, imagined_pods
from windlass.engine.provisioning.request import CLASS, CONSUME, Condition, PodSet, Request
from windlass.kube.models import autoscaling, meta, templates
from windlass.kube.models import pods as pod_models

API_VERSION = "autoscaling.x-k8s.io/v1"
KIND = "ProvisioningRequest"


def read(found: autoscaling.ProvisioningRequest) -> Request:
    """The request, its pods yet to be made."""
    metadata, spec = found.meta, found.spec or autoscaling.ProvisioningRequestSpec()
    written = (found.status.conditions if found.status else None) or ()
    return Request(
        metadata.namespace or "",
        metadata.name or "",
        metadata.uid or "",
        spec.provisioning_class_name or "",
        tuple(_read_pod_set(one) for one in spec.pod_sets or ()),
        spec.parameters or {},
        tuple(_read_condition(one) for one in written),
        metadata.generation or 0,
        meta.seconds(metadata.creation_timestamp) or 0.0,
        metadata.resource_version or "",
    )


def _read_pod_set(found: autoscaling.PodSet) -> PodSet:
    return PodSet((found.pod_template_ref.name if found.pod_template_ref else None) or "", max(found.count or 0, 0))


def _read_condition(found: autoscaling.Condition) -> Condition:
    return Condition(
        found.type or "",
        found.status or "",
        found.reason or "",
        found.message or "",
        meta.seconds(found.last_transition_time) or 0.0,
        found.observed_generation,
    )


def make_pods(request: Request, known: Mapping[str, templates.PodTemplate]) -> Request:
    """The request with its pods, as far as there are templates for them. `known` goes by namespace/name."""
    count = sum(one.count for one in request.pod_sets)
    if count > imagined_pods.MAX_PODS:
        fault = f"{count} pods are requested, more than {imagined_pods.MAX_PODS}"
        return replace(request, pod_sets=tuple(replace(one, fault=fault) for one in request.pod_sets[:1]))
    made = tuple(_make_pod(request, one, known.get(f"{request.namespace}/{one.template}")) for one in request.pod_sets)
    return replace(request, pod_sets=made)


def _make_pod(request: Request, wanted: PodSet, found: templates.PodTemplate | None) -> PodSet:
    if found is None:
        return wanted
    template = found.template or templates.PodTemplateSpec()
    try:
        return replace(wanted, pod=_read_pod(request, template))
    except errors.InvalidObject as error:
        return replace(wanted, fault=f"{error.field}: found {error.found!r}, expected {error.accepted}")
    except Exception as error:  # whatever it is, it costs this request
        said = f"{type(error).__name__}: {unexpected.describe(error)}"
        unexpected.report(unexpected.Place.DECISION, f"PodTemplate {request.namespace}/{wanted.template}", said, error)
        return replace(wanted, fault=f"it cannot be read: {said}")


def _read_pod(request: Request, template: templates.PodTemplateSpec) -> facts.Pod:
    """A pod of the template that belongs to the request, and came with it."""
    given = template.metadata or meta.NO_META
    metadata = meta.ObjectMeta(
        name=request.name,
        namespace=request.namespace,
        labels=given.labels,
        annotations={**(given.annotations or {}), CONSUME: request.name, CLASS: request.class_name},
        owner_references=[
            meta.OwnerReference(api_version=API_VERSION, kind=KIND, name=request.name, uid=request.uid, controller=True)
        ],
    )
    pod = pods.read(pod_models.Pod(metadata=metadata, spec=template.spec), pending=True)
    return replace(pod, created_s=request.created_s)
