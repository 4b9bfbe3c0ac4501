"""Pod reader: parses pod-specific fields of each pod, and each pod template once.

A cluster has half a million pods from a few hundred templates. The spec without node name, token volume and DaemonSet
pin is the key of cached `PodTemplateFacts`. A DaemonSet pod that is bound to its pinned node is read without the pin:
it is never placed again, and the pin would give each such pod a shape of its own.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from windlass import errors, scheduler_releases
from windlass.autoscaler.readers import dra, nodes, pod_identity, scheduling_constraints, storage_objects
from windlass.engine.model import facts, well_known
from windlass.kube import fields, resource_requests, scheme, time_formats
from windlass.kube.models import core, meta, pods

_MAX_TEMPLATES = 50_000
"""Maximum number of templates per cache generation."""

Value = TypeVar("Value")

RELEVANT_ANNOTATIONS = (
    "cluster-autoscaler.kubernetes.io/",
    "kubernetes.io/config.",
    "autoscaling.x-k8s.io/",
    "karpenter.sh/do-not-disrupt",
)

SCALE_UP_DELAY = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"

_CLOUD_TPU = "cloud-tpus.google.com/"
"""Resource prefix of Cloud TPUs, which are attached over the network: no node has them as capacity."""

_NO_STATUS = pods.PodStatus()

_DEFAULT_DRAIN = facts.DrainBehavior.DRAIN


@dataclass(frozen=True, slots=True)
class PodTemplateFacts:
    """Facts shared by all pods of one template."""

    spec: facts.PodSpec
    digest: str
    amounts: resource_requests.SpecRequests
    scheduler: str
    restart_policy: str
    grace_s: float | None
    has_ephemeral: bool
    is_gated: bool
    complaint: fields.InvalidField | None = None
    """The first ignored field, if any."""


class PodReader:
    """Reads pods, and caches templates in two generations, so that unused ones expire.

    A generation ends when it is full, or when `forget_unused` is called: some Jobs have a template per pod.
    Without Cloud TPUs, requests for them are dropped, as Cluster Autoscaler does for pods that it places.
    """

    def __init__(
        self,
        remembered: int,
        release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE,
        *,
        cloud_tpus: bool = True,
    ) -> None:
        self._limit, self._release, self._cloud_tpus = remembered, release, cloud_tpus
        self._recent: dict[bytes, PodTemplateFacts] = {}
        self._older: dict[bytes, PodTemplateFacts] = {}
        self._shared: dict[object, object] = {}

    def read(self, pod: pods.Pod, *, pending: bool = False) -> facts.Pod:
        """Read a pod. InvalidObject if it cannot be read.

        `pending`: read it as a pending pod even if it names a node; the node name becomes a requirement.
        """
        return self.read_with_warning(pod, pending=pending)[0]

    def read_with_warning(
        self, pod: pods.Pod, *, pending: bool = False
    ) -> tuple[facts.Pod, errors.InvalidObject | None]:
        """Read a pod, with a warning about ignored fields, such as an unknown operator, as in kube-scheduler."""
        try:
            pod_fact, complaint = self._read(pod, pending)
            return pod_fact, None if complaint is None else complaint.of("Pod", pod.meta.key)
        except fields.InvalidField as error:
            raise error.of("Pod", pod.meta.key) from error
        except msgspec.MsgspecError as error:
            raise fields.translate_decode_error(error, pod.spec, "spec").of("Pod", pod.meta.key) from error
        except RecursionError:
            return self._read_mended(pod, pending)

    def salvage(self, pod: pods.Pod, reason: str) -> facts.Pod:
        """Read what is readable of an invalid pod, part by part; `reason` is stored with it.

        Its digest is unique, because its equivalence to other pods is unknown.
        """
        spec = scheme.decode_partial(pods.SPEC, bytes(pod.spec)) or pods.PodSpec(node_name=_find_node_name(pod.spec))
        metadata, status = pod.meta, pod.status or _NO_STATUS
        return facts.Pod(
            namespace=metadata.namespace or "",
            name=metadata.name or "",
            uid=metadata.uid or "",
            labels=metadata.labels or facts.NO_LABELS,
            annotations=_read_annotations(metadata.annotations),
            owner=_read_owner(metadata),
            spec=_salvage_spec(spec, metadata.namespace or "", metadata.labels or {}),
            digest=f"unreadable {metadata.uid or metadata.key}",
            node_name=spec.node_name or "",
            nominated_node=status.nominated_node_name or "",
            scheduler=spec.scheduler_name or "default-scheduler",
            phase=_read_phase(status, bool(spec.node_name)),
            restart_policy=spec.restart_policy or "Always",
            created_s=meta.seconds(metadata.creation_timestamp) or 0.0,
            deleted_s=meta.seconds(metadata.deletion_timestamp),
            grace_s=None if (grace := spec.termination_grace_period_seconds) is None else float(grace),
            is_gated=bool(spec.scheduling_gates),
            unreadable=reason,
        )

    def _read_mended(self, pod: pods.Pod, pending: bool) -> tuple[facts.Pod, errors.InvalidObject]:
        """Read a pod without fields that are nested deeper than any field that is used."""
        too_deep = errors.InvalidObject("Pod", pod.meta.key, "spec", "more levels", f"at most {scheme.MAX_DEPTH}")
        mended = scheme.repair_spec(pod.spec)
        if bytes(mended) == bytes(pod.spec):
            raise too_deep
        return self.read_with_warning(msgspec.structs.replace(pod, spec=mended), pending=pending)[0], too_deep

    def _read(self, pod: pods.Pod, pending: bool) -> tuple[facts.Pod, fields.InvalidField | None]:
        metadata, status = pod.meta, pod.status or _NO_STATUS
        node_name, owner = pods.decode_node_name(pod.spec), _read_owner(metadata)
        spec, pinned_to = bytes(pod.spec), ""
        if owner is not None and owner.kind == "DaemonSet":
            spec, pinned_to = pod_identity.strip_node_pin(spec)
            if pinned_to == node_name and not pending:
                pinned_to = ""
        template = self._template(pod, spec, node_name)
        created_s = meta.seconds(metadata.creation_timestamp) or 0.0
        unschedulable_since_s, is_ready, scheduling_reason = _read_conditions(status, created_s)
        labels = metadata.labels or facts.NO_LABELS
        is_bound = bool(node_name) and not pending
        pod_fact = facts.Pod(
            namespace=metadata.namespace or "",
            name=metadata.name or "",
            uid=metadata.uid or "",
            labels=labels,
            annotations=_read_annotations(metadata.annotations),
            owner=owner,
            spec=self._spec_of(pod, template, node_name, pending, pinned_to),
            digest=pod_identity.pod_digest(template.digest, node_name if pending else "", pinned_to),
            node_name="" if pending else node_name,
            nominated_node=status.nominated_node_name or "",
            scheduler=template.scheduler,
            phase=_read_phase(status, is_bound),
            restart_policy=template.restart_policy,
            created_s=created_s,
            deleted_s=meta.seconds(metadata.deletion_timestamp),
            grace_s=template.grace_s,
            unschedulable_since_s=unschedulable_since_s,
            is_gated=template.is_gated,
            scale_up_delay_s=_read_scale_up_delay(metadata.annotations),
            health=_read_health(status, is_ready) if is_bound else facts.PodHealth.READY,
            drain_behavior=_read_drain_behavior(labels) if well_known.DRAIN_LABEL in labels else _DEFAULT_DRAIN,
            scheduling_reason="" if is_bound or template.is_gated else scheduling_reason,
        )
        return pod_fact, template.complaint

    def _template(self, pod: pods.Pod, spec: bytes, node_name: str) -> PodTemplateFacts:
        key = pod_identity.template_key(spec, node_name, pod.meta)
        template = self._recent.get(key)
        if template is None:
            if len(self._recent) >= self._limit:
                self.forget_unused()
            template = self._older.get(key) or self._make_template(pod, spec)
            self._recent[key] = template
        return template

    def forget_unused(self) -> None:
        """Start a cache generation: templates unused in it expire at its end."""
        self._older, self._recent, self._shared = self._recent, {}, {}

    def _make_template(self, pod: pods.Pod, raw: bytes) -> PodTemplateFacts:
        model = pods.decode_spec(raw)
        complaints: list[fields.InvalidField] = []
        spec = self._read_spec(model, pod.meta.namespace or "", pod.meta.labels or {}, complaints)
        grace = model.termination_grace_period_seconds
        return PodTemplateFacts(
            spec=self._share(spec),
            digest=pod_identity.spec_digest(raw),
            amounts=resource_requests.spec_requests(model),
            scheduler=model.scheduler_name or "default-scheduler",
            restart_policy=model.restart_policy or "Always",
            grace_s=None if grace is None else float(grace),
            has_ephemeral=any(volume.source == "ephemeral" for volume in spec.volumes),
            is_gated=bool(model.scheduling_gates),
            complaint=complaints[0] if complaints else None,
        )

    def _read_spec(
        self,
        model: pods.PodSpec,
        namespace: str,
        labels: Mapping[str, str],
        complaints: scheduling_constraints.Warnings,
    ) -> facts.PodSpec:
        spread, spread_fault = scheduling_constraints.read_spread(model, labels, complaints)
        interpod = scheduling_constraints.read_interpod(model, namespace, complaints)
        return facts.PodSpec(
            requests=self._share(self._read_requests(resource_requests.pending_requests(model, complaints))),
            node_selector=tuple(sorted((model.node_selector or {}).items())),
            node_affinity=scheduling_constraints.read_node_affinity(model, complaints),
            tolerations=self._share(scheduling_constraints.read_tolerations(model, complaints, self._release)),
            host_ports=scheduling_constraints.read_host_ports(model),
            spread=self._share(spread),
            spread_fault=spread_fault,
            affinity=self._share(interpod.affinity),
            anti_affinity=self._share(interpod.anti_affinity),
            interpod_fault=interpod.fault,
            volumes=self._share(storage_objects.read_pod_volumes(model.volumes)),
            required_features=scheduling_constraints.read_required_features(model),
            priority=model.priority,
            claims=dra.read_pod_claims(model),
            extended=tuple(item for item in dra.read_extended_resources(model) if self._counts(item.resource)),
        )

    def _spec_of(
        self, pod: pods.Pod, template: PodTemplateFacts, node_name: str, pending: bool, pinned_to: str
    ) -> facts.PodSpec:
        """Return the template's spec with pod-specific fields: claims, a resize in progress, the required node."""
        own: dict[str, object] = {}
        if pinned_to:
            own["node_affinity"] = pod_identity.node_pin_affinity(pinned_to)
        if template.has_ephemeral:
            own["volumes"] = storage_objects.resolve_ephemeral_claims(
                template.spec.volumes, pod.meta.name or "", pod.meta.uid or ""
            )
        if template.spec.claims:
            own |= dra.resolve_pod_claims(template.spec.claims, pod)
        if template.spec.extended and pod.status is not None and pod.status.extended_resource_claim_status is not None:
            own["extended_claim"] = pod.status.extended_resource_claim_status.resource_claim_name or ""
        if pending:
            if node_name:
                own["node_name"] = node_name
        elif (
            node_name
            and pod.status is not None
            and resource_requests.is_resizing(template.amounts, pod.status, self._release)
        ):
            amounts = resource_requests.bound_requests(pods.decode_spec(pod.spec), pod.status, self._release)
            own["requests"] = self._read_requests(amounts)
        if not own:
            return template.spec
        return dataclasses.replace(template.spec, **own)  # type: ignore[arg-type]

    def _read_requests(self, nano: Mapping[str, int]) -> facts.Resources:
        return tuple(request for request in nodes.read_requests(nano) if self._counts(request[0]))

    def _counts(self, resource: str) -> bool:
        return self._cloud_tpus or not resource.startswith(_CLOUD_TPU)

    def _share(self, value: Value) -> Value:
        """Return the first cached value equal to this one."""
        if len(self._shared) >= 4 * self._limit:
            self._shared = {}
        return self._shared.setdefault(value, value)  # type: ignore[return-value]


def _salvage_spec(spec: pods.PodSpec, namespace: str, labels: Mapping[str, str]) -> facts.PodSpec:
    """Return the readable parts of a spec; of requests, the readable amounts."""
    readers: dict[str, Callable[[], object]] = {
        "requests": lambda: nodes.read_requests(resource_requests.pending_requests(_drop_unreadable_amounts(spec))),
        "node_selector": lambda: tuple(sorted((spec.node_selector or {}).items())),
        "node_affinity": lambda: scheduling_constraints.read_node_affinity(spec, []),
        "tolerations": lambda: scheduling_constraints.read_tolerations(spec, []),
        "host_ports": lambda: scheduling_constraints.read_host_ports(spec),
        "spread": lambda: scheduling_constraints.read_spread(spec, labels, [])[0],
        "spread_fault": lambda: scheduling_constraints.read_spread(spec, labels, [])[1],
        "affinity": lambda: scheduling_constraints.read_interpod(spec, namespace, []).affinity,
        "anti_affinity": lambda: scheduling_constraints.read_interpod(spec, namespace, []).anti_affinity,
        "interpod_fault": lambda: scheduling_constraints.read_interpod(spec, namespace, []).fault,
        "volumes": lambda: storage_objects.read_pod_volumes(spec.volumes),
        "priority": lambda: spec.priority,
    }
    return facts.PodSpec(**nodes.read_fields(readers))


def _find_node_name(spec: msgspec.Raw) -> str:
    """Return the node of a pod whose spec is otherwise unreadable."""
    try:
        return pods.decode_node_name(scheme.repair_json(bytes(spec)))
    except (ValueError, RecursionError):
        return ""


def _drop_unreadable_amounts(spec: pods.PodSpec) -> pods.PodSpec:
    def keep(amounts: meta.Amounts | None) -> meta.Amounts:
        return {name: value for name, value in (amounts or {}).items() if _is_amount(value)}

    def clean(container: pods.Container) -> pods.Container:
        asked = container.resources.requests if container.resources else None
        return msgspec.structs.replace(container, resources=core.ResourceRequirements(requests=keep(asked)))

    level = spec.resources.requests if spec.resources else None
    return msgspec.structs.replace(
        spec,
        containers=[clean(container) for container in spec.containers or ()],
        init_containers=[clean(init_container) for init_container in spec.init_containers or ()],
        resources=None if level is None else core.ResourceRequirements(requests=keep(level)),
        overhead=keep(spec.overhead),
    )


def _is_amount(value: object) -> bool:
    try:
        fields.read_amounts({"": value}, "")
    except fields.InvalidField:
        return False
    return True


def _read_owner(metadata: meta.ObjectMeta) -> facts.Owner | None:
    owner = metadata.controller
    if owner is None:
        return None
    return facts.Owner(owner.api_version or "", owner.kind or "", owner.name or "", owner.uid or "")


def _read_annotations(annotations: Mapping[str, str] | None) -> Mapping[str, str]:
    """Return annotations that decisions can depend on. Others differ from pod to pod (a network plugin's addresses, for
    example) and would prevent pods of one template from sharing facts.
    """
    if not annotations:
        return facts.NO_LABELS
    kept = {key: value for key, value in annotations.items() if key.startswith(RELEVANT_ANNOTATIONS)}
    return kept or facts.NO_LABELS


def _read_scale_up_delay(annotations: Mapping[str, str] | None) -> float | None:
    """Read the scale-up delay annotation. An invalid value is ignored."""
    text = (annotations or {}).get(SCALE_UP_DELAY)
    if text is None:
        return None
    try:
        return time_formats.parse_duration(text)
    except ValueError:
        return None


def is_unschedulable(pod: pods.Pod) -> bool:
    """Whether the scheduler marked the pod as unschedulable."""
    return pod.status is not None and _read_conditions(pod.status, 0.0)[0] is not None


def _read_conditions(status: pods.PodStatus, created_s: float) -> tuple[float | None, bool, str]:
    """Return (since when the pod is unschedulable, whether it is Ready, the reason of another scheduling result), in
    one pass, because every pod update is read here.
    """
    since_s: float | None = None
    is_ready, scheduling_reason = False, ""
    for condition in status.conditions or ():
        if condition.type == "Ready":
            is_ready = is_ready or condition.status == "True"
        elif condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable":
            changed_s = meta.seconds(condition.last_transition_time)
            since_s = created_s if changed_s is None else changed_s
        elif condition.type == "PodScheduled":
            scheduling_reason = condition.reason or ("" if condition.status == "False" else str(condition.status))
    return since_s, is_ready, scheduling_reason


def _read_drain_behavior(labels: Mapping[str, str]) -> facts.DrainBehavior:
    """Read the drain behavior like Cluster API: case-insensitive, the hyphen of `wait-completed` is optional."""
    said = labels[well_known.DRAIN_LABEL].lower()
    if said == "skip":
        return facts.DrainBehavior.SKIP
    is_waited_for = said.replace("-", "", 1) == "waitcompleted"
    return facts.DrainBehavior.WAIT_COMPLETED if is_waited_for else facts.DrainBehavior.DRAIN


def _read_phase(status: pods.PodStatus, is_bound: bool) -> str:
    """Read the phase. A bound pod counts as Running, so that the start of its containers is no change."""
    phase = status.phase or "Pending"
    return "Running" if is_bound and phase == "Pending" else phase


def _read_health(status: pods.PodStatus, is_ready: bool) -> facts.PodHealth:
    """Read the health of a bound pod."""
    if (status.phase or "Pending") == "Pending":
        return facts.PodHealth.NOT_STARTED
    return facts.PodHealth.READY if is_ready else facts.PodHealth.UNREADY


_readers: dict[tuple[scheduler_releases.SchedulerRelease, bool], PodReader] = {}
"""Shared readers by release, with and without Cloud TPUs."""


def shared_reader(release: scheduler_releases.SchedulerRelease, *, cloud_tpus: bool = True) -> PodReader:
    """Return the shared reader of a release."""
    reader = _readers.get((release, cloud_tpus))
    if reader is None:
        reader = _readers[release, cloud_tpus] = PodReader(_MAX_TEMPLATES, release, cloud_tpus=cloud_tpus)
    return reader


def read_pod(
    pod: pods.Pod,
    *,
    pending: bool = False,
    release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE,
    cloud_tpus: bool = True,
) -> facts.Pod:
    """Read a pod with the shared reader. See `PodReader.read`."""
    return shared_reader(release, cloud_tpus=cloud_tpus).read(pod, pending=pending)


def read_pod_with_warning(
    pod: pods.Pod,
    release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE,
    *,
    cloud_tpus: bool = True,
) -> tuple[facts.Pod, errors.InvalidObject | None]:
    """Read a pod with the shared reader. See `PodReader.read_with_warning`."""
    return shared_reader(release, cloud_tpus=cloud_tpus).read_with_warning(pod)


def salvage_pod(pod: pods.Pod, reason: str) -> facts.Pod:
    """Salvage a pod with the shared reader. See `PodReader.salvage`."""
    return shared_reader(scheduler_releases.DEFAULT_RELEASE).salvage(pod, reason)


def forget_unused_templates() -> None:
    """Drop templates that no recently read pod has. See `PodReader.forget_unused`."""
    for reader in _readers.values():
        reader.forget_unused()
