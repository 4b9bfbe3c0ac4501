"""Pods: what differs from pod to pod is read each time, what a template says is read once.

A cluster holds half a million pods made from a few hundred templates. Their specs differ in little that matters: the
node's name, and the random name of the token volume. The rest of the spec, as it came, is the key to a `Template`.

The DaemonSet controller pins each pod to its node by a node affinity. That is not part of the template, and a pod that
is bound to the node it is pinned to is read without it: such a pod is never placed again, and new nodes get their pods
from the DaemonSets themselves. With it, every DaemonSet pod of a cluster would be a kind and a shape of its own.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from windlass import errors, releases, selectors
from windlass.autoscaler.observe import digest, parts, placement, pod_claims, resources, volumes
from windlass.engine import facts, pod_traits
from windlass.kube import durations, fields, requests, salvage
from windlass.kube.models import core, meta, pods

_REMEMBERED = 50_000
"""Templates in each of a reader's generations."""
_TOKEN_VOLUME = b'"kube-api-access-'
_PIN_FIELD = b'"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":'
_PIN = b'{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["'
_PIN_END = b'"]}]}]}'
"""What the DaemonSet controller writes around a node's name: one term, one field, one value. The API server always
spells it so; spelled otherwise, it is read as any other affinity."""
Value = TypeVar("Value")

DECISIVE_ANNOTATIONS = (
    "cluster-autoscaler.kubernetes.io/",
    "kubernetes.io/config.",
    "autoscaling.x-k8s.io/",
    "karpenter.sh/do-not-disrupt",
)
SCALE_UP_DELAY = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
_NO_STATUS = pods.PodStatus()
_DRAINED = facts.DrainBehavior.DRAIN


@dataclass(frozen=True, slots=True)
class Template:
    """What all pods of one template have in common."""

    spec: facts.PodSpec
    digest: str
    amounts: requests.Spelled
    scheduler: str
    restart_policy: str
    grace_s: float | None
    has_ephemeral: bool
    is_gated: bool
    complaint: fields.InvalidField | None = None
    """The first of what counts for nothing, if anything does."""


class Reader:
    """Reads pods, and remembers templates in two generations, so that those out of use are forgotten.

    A generation ends when it holds so many, or when whoever reads is told to forget: some Jobs have a template for
    each pod.
    """

    def __init__(self, remembered: int, release: releases.Release = releases.DEFAULT) -> None:
        self._limit, self._release = remembered, release
        self._recent: dict[bytes, Template] = {}
        self._older: dict[bytes, Template] = {}
        self._shared: dict[object, object] = {}

    def read(self, pod: pods.Pod, *, pending: bool = False) -> facts.Pod:
        """The pod as the engine sees it. InvalidObject if it cannot be read.

        `pending` reads it as a pod that waits, even if it names a node: the node it names is what it asks for.
        """
        return self.read_complaining(pod, pending=pending)[0]

    def read_complaining(
        self, pod: pods.Pod, *, pending: bool = False
    ) -> tuple[facts.Pod, errors.InvalidObject | None]:
        """The pod, and what of it counts for nothing, as kube-scheduler has it: an unknown operator, say."""
        try:
            found, complaint = self._read(pod, pending)
            return found, None if complaint is None else complaint.of("Pod", pod.meta.key)
        except fields.InvalidField as error:
            raise error.of("Pod", pod.meta.key) from error
        except msgspec.MsgspecError as error:
            raise fields.translate(error, pod.spec, "spec").of("Pod", pod.meta.key) from error
        except RecursionError:
            return self._read_mended(pod, pending)

    def salvage(self, pod: pods.Pod, why: str) -> facts.Pod:
        """What can be read of a pod that cannot be read in full, part by part; `why` is kept with it.

        Its digest is its own: nobody knows which other pods it is equal to.
        """
        spec = salvage.decode(pods.SPEC, bytes(pod.spec)) or pods.PodSpec(node_name=_find_node_name(pod.spec))
        metadata, status = pod.meta, pod.status or _NO_STATUS
        return facts.Pod(
            namespace=metadata.namespace or "",
            name=metadata.name or "",
            uid=metadata.uid or "",
            labels=metadata.labels or facts.NOTHING,
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
            unreadable=why,
        )

    def _read_mended(self, pod: pods.Pod, pending: bool) -> tuple[facts.Pod, errors.InvalidObject]:
        """A pod without what is nested deeper in its spec than anything that is read of it."""
        too_deep = errors.InvalidObject("Pod", pod.meta.key, "spec", "more levels", f"at most {salvage.DEEPEST}")
        mended = salvage.mend_spec(pod.spec)
        if bytes(mended) == bytes(pod.spec):
            raise too_deep
        return self.read_complaining(msgspec.structs.replace(pod, spec=mended), pending=pending)[0], too_deep

    def _read(self, pod: pods.Pod, pending: bool) -> tuple[facts.Pod, fields.InvalidField | None]:
        metadata, status = pod.meta, pod.status or _NO_STATUS
        node_name, owner = pods.decode_node_name(pod.spec), _read_owner(metadata)
        spec, pinned_to = bytes(pod.spec), ""
        if owner is not None and owner.kind == "DaemonSet":
            spec, pinned_to = _take_pin(spec)
            if pinned_to == node_name and not pending:
                pinned_to = ""
        template = self._template(pod, spec, node_name)
        created_s = meta.seconds(metadata.creation_timestamp) or 0.0
        unschedulable_since_s, is_ready = _read_conditions(status, created_s)
        labels = metadata.labels or facts.NOTHING
        is_bound = bool(node_name) and not pending
        found = facts.Pod(
            namespace=metadata.namespace or "",
            name=metadata.name or "",
            uid=metadata.uid or "",
            labels=labels,
            annotations=_read_annotations(metadata.annotations),
            owner=owner,
            spec=self._spec_of(pod, template, node_name, pending, pinned_to),
            digest=_name_digest(template.digest, node_name if pending else "", pinned_to),
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
            scale_up_delay_s=_scale_up_delay(metadata.annotations),
            health=_read_health(status, is_ready) if is_bound else facts.Health.READY,
            drain_behavior=_read_drain_behavior(labels) if pod_traits.DRAIN_LABEL in labels else _DRAINED,
        )
        return found, template.complaint

    def _template(self, pod: pods.Pod, spec: bytes, node_name: str) -> Template:
        key = _key(spec, node_name, pod.meta)
        template = self._recent.get(key)
        if template is None:
            if len(self._recent) >= self._limit:
                self.forget_older()
            template = self._older.get(key) or self._make_template(pod, spec)
            self._recent[key] = template
        return template

    def forget_older(self) -> None:
        """Begin a generation: what nobody reads in it is forgotten at the end of it."""
        self._older, self._recent, self._shared = self._recent, {}, {}

    def _make_template(self, pod: pods.Pod, raw: bytes) -> Template:
        model = pods.decode_spec(raw)
        complaints: list[fields.InvalidField] = []
        spec = self._read_spec(model, pod.meta.namespace or "", pod.meta.labels or {}, complaints)
        grace = model.termination_grace_period_seconds
        return Template(
            spec=self._share(spec),
            digest=digest.of_spec(raw),
            amounts=requests.spell(model),
            scheduler=model.scheduler_name or "default-scheduler",
            restart_policy=model.restart_policy or "Always",
            grace_s=None if grace is None else float(grace),
            has_ephemeral=any(volume.source == "ephemeral" for volume in spec.volumes),
            is_gated=bool(model.scheduling_gates),
            complaint=complaints[0] if complaints else None,
        )

    def _read_spec(
        self, model: pods.PodSpec, namespace: str, labels: Mapping[str, str], complaints: placement.Complaints
    ) -> facts.PodSpec:
        spread, spread_fault = placement.read_spread(model, labels, complaints)
        interpod = placement.read_interpod(model, namespace, complaints)
        return facts.PodSpec(
            requests=self._share(resources.read_requests(requests.of_waiting(model, complaints))),
            node_selector=tuple(sorted((model.node_selector or {}).items())),
            node_affinity=placement.read_node_affinity(model, complaints),
            tolerations=self._share(placement.read_tolerations(model, complaints, self._release)),
            host_ports=placement.read_host_ports(model),
            spread=self._share(spread),
            spread_fault=spread_fault,
            affinity=self._share(interpod.affinity),
            anti_affinity=self._share(interpod.anti_affinity),
            interpod_fault=interpod.fault,
            volumes=self._share(volumes.read(model.volumes)),
            required_features=placement.read_required_features(model),
            priority=model.priority,
            claims=pod_claims.read_pod_claims(model),
            extended=pod_claims.read_extended(model),
        )

    def _spec_of(
        self, pod: pods.Pod, template: Template, node_name: str, pending: bool, pinned_to: str
    ) -> facts.PodSpec:
        """The template's spec with what is this pod's own: claims, a resize under way, the node it asks for."""
        own: dict[str, object] = {}
        if pinned_to:
            own["node_affinity"] = _pin(pinned_to)
        if template.has_ephemeral:
            own["volumes"] = volumes.claim_ephemeral(template.spec.volumes, pod.meta.name or "", pod.meta.uid or "")
        if template.spec.claims:
            own |= pod_claims.name_claims(template.spec.claims, pod)
        if template.spec.extended and pod.status is not None and pod.status.extended_resource_claim_status is not None:
            own["extended_claim"] = pod.status.extended_resource_claim_status.resource_claim_name or ""
        if pending:
            if node_name:
                own["node_name"] = node_name
        elif node_name and pod.status is not None and requests.is_resizing(template.amounts, pod.status, self._release):
            amounts = requests.of_bound(pods.decode_spec(pod.spec), pod.status, self._release)
            own["requests"] = resources.read_requests(amounts)
        if not own:
            return template.spec
        return dataclasses.replace(template.spec, **own)  # type: ignore[arg-type]

    def _share(self, value: Value) -> Value:
        """The first value equal to this one."""
        if len(self._shared) >= 4 * self._limit:
            self._shared = {}
        return self._shared.setdefault(value, value)  # type: ignore[return-value]


def _salvage_spec(spec: pods.PodSpec, namespace: str, labels: Mapping[str, str]) -> facts.PodSpec:
    """Each part that can be read; requests as far as they parse."""
    readers: dict[str, Callable[[], object]] = {
        "requests": lambda: resources.read_requests(requests.of_waiting(_drop_unreadable_amounts(spec))),
        "node_selector": lambda: tuple(sorted((spec.node_selector or {}).items())),
        "node_affinity": lambda: placement.read_node_affinity(spec, []),
        "tolerations": lambda: placement.read_tolerations(spec, []),
        "host_ports": lambda: placement.read_host_ports(spec),
        "spread": lambda: placement.read_spread(spec, labels, [])[0],
        "spread_fault": lambda: placement.read_spread(spec, labels, [])[1],
        "affinity": lambda: placement.read_interpod(spec, namespace, []).affinity,
        "anti_affinity": lambda: placement.read_interpod(spec, namespace, []).anti_affinity,
        "interpod_fault": lambda: placement.read_interpod(spec, namespace, []).fault,
        "volumes": lambda: volumes.read(spec.volumes),
        "priority": lambda: spec.priority,
    }
    return facts.PodSpec(**parts.read(readers))


def _find_node_name(spec: msgspec.Raw) -> str:
    """The node of a pod of whose spec nothing else can be read."""
    try:
        return pods.decode_node_name(salvage.mend(bytes(spec)))
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
        containers=[clean(one) for one in spec.containers or ()],
        init_containers=[clean(one) for one in spec.init_containers or ()],
        resources=None if level is None else core.ResourceRequirements(requests=keep(level)),
        overhead=keep(spec.overhead),
    )


def _is_amount(value: object) -> bool:
    try:
        fields.read_amounts({"": value}, "")
    except fields.InvalidField:
        return False
    return True


def _key(spec: bytes, node_name: str, metadata: meta.ObjectMeta) -> bytes:
    """Equal for pods whose specs differ in nothing but the node's name and the token volume's."""
    if b'"matchLabelKeys"' in spec:
        own = f"{metadata.namespace} {sorted((metadata.labels or {}).items())}"
    else:
        own = metadata.namespace or ""
    text = _blank_token_volume(spec)
    field = b'"nodeName":"%s"' % node_name.encode()
    before, _, after = text.partition(field)
    # Found twice, it is also something else: a label that is asked for, say.
    if field in after:
        before, after = text, b""
    key = hashlib.sha256(before)
    key.update(after)
    key.update(own.encode())
    return key.digest()


def _take_pin(spec: bytes) -> tuple[bytes, str]:
    """A DaemonSet pod's spec without the node affinity that pins it, and the node that it is pinned to, if any."""
    field = spec.find(_PIN_FIELD + _PIN)
    if field < 0:
        return spec, ""
    start = field + len(_PIN_FIELD)
    name_start = start + len(_PIN)
    name_end = spec.find(b'"', name_start)
    name, end = spec[name_start:name_end], name_end + len(_PIN_END)
    is_plain = name.isascii() and b"\\" not in name and spec[name_end:end] == _PIN_END
    if not name or not is_plain or spec.count(b'"nodeAffinity"') != 1:
        return spec, ""
    return b"%bnull%b" % (spec[:start], spec[end:]), name.decode()


def _pin(node_name: str) -> selectors.NodeSelector:
    named = selectors.Requirement("metadata.name", selectors.Operator.IN, (node_name,))
    return selectors.NodeSelector((selectors.NodeSelectorTerm((), (named,)),))


def _name_digest(of_template: str, asked_for: str, pinned_to: str) -> str:
    """The digest of a pod's spec: the template's, and the nodes that are this pod's own."""
    if not asked_for and not pinned_to:
        return of_template
    asked = f"@{asked_for}" if asked_for else ""
    return f"{of_template}{asked} pinned to {pinned_to}" if pinned_to else of_template + asked


def _blank_token_volume(spec: bytes) -> bytes:
    """The spec with a common name for the projected volume that the API server adds to every pod."""
    start = spec.find(_TOKEN_VOLUME)
    if start < 0:
        return spec
    name = spec[start : spec.index(b'"', start + 1) + 1]
    return spec.replace(name, _TOKEN_VOLUME) if name + b',"projected":' in spec else spec


def _read_owner(metadata: meta.ObjectMeta) -> facts.Owner | None:
    owner = metadata.controller
    if owner is None:
        return None
    return facts.Owner(owner.api_version or "", owner.kind or "", owner.name or "", owner.uid or "")


def _read_annotations(annotations: Mapping[str, str] | None) -> Mapping[str, str]:
    """Those that a decision can depend on. Others may differ from pod to pod (a network plugin's addresses, say), and
    would keep pods of one template from sharing anything.
    """
    if not annotations:
        return facts.NOTHING
    kept = {key: value for key, value in annotations.items() if key.startswith(DECISIVE_ANNOTATIONS)}
    return kept or facts.NOTHING


def _scale_up_delay(annotations: Mapping[str, str] | None) -> float | None:
    """What the pod's annotation says. One that cannot be read says nothing: the pod is helped as any other."""
    text = (annotations or {}).get(SCALE_UP_DELAY)
    if text is None:
        return None
    try:
        return durations.parse(text)
    except ValueError:
        return None


def is_unschedulable(pod: pods.Pod) -> bool:
    """Did the scheduler say that it fits nowhere?"""
    return pod.status is not None and _read_conditions(pod.status, 0.0)[0] is not None


def _read_conditions(status: pods.PodStatus, created_s: float) -> tuple[float | None, bool]:
    """(since when the pod is unschedulable, is it Ready): one pass for both, as every pod goes through here."""
    since_s: float | None = None
    is_ready = False
    for condition in status.conditions or ():
        if condition.type == "Ready":
            is_ready = is_ready or condition.status == "True"
        elif condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable":
            changed_s = meta.seconds(condition.last_transition_time)
            since_s = created_s if changed_s is None else changed_s
    return since_s, is_ready


def _read_drain_behavior(labels: Mapping[str, str]) -> facts.DrainBehavior:
    """What Cluster API makes of the label: case does not matter, nor does the first hyphen of `wait-completed`."""
    said = labels[pod_traits.DRAIN_LABEL].lower()
    if said == "skip":
        return facts.DrainBehavior.SKIP
    is_waited_for = said.replace("-", "", 1) == "waitcompleted"
    return facts.DrainBehavior.WAIT_COMPLETED if is_waited_for else facts.DrainBehavior.DRAIN


def _read_phase(status: pods.PodStatus, is_bound: bool) -> str:
    """A pod counts as running from when it is bound: that its containers start is no change."""
    phase = status.phase or "Pending"
    return "Running" if is_bound and phase == "Pending" else phase


def _read_health(status: pods.PodStatus, is_ready: bool) -> facts.Health:
    """Of a pod on a node."""
    if (status.phase or "Pending") == "Pending":
        return facts.Health.NOT_STARTED
    return facts.Health.READY if is_ready else facts.Health.UNREADY


_readers: dict[releases.Release, Reader] = {}
"""One for each release; in a process that is mostly one."""


def reader_of(release: releases.Release) -> Reader:
    """The reader that all who read by the rules of this release share."""
    known = _readers.get(release)
    if known is None:
        known = _readers[release] = Reader(_REMEMBERED, release)
    return known


def read(pod: pods.Pod, *, pending: bool = False, release: releases.Release = releases.DEFAULT) -> facts.Pod:
    """The pod as the engine sees it, templates shared with all pods read this way. See `Reader.read`."""
    return reader_of(release).read(pod, pending=pending)


def read_complaining(
    pod: pods.Pod, release: releases.Release = releases.DEFAULT
) -> tuple[facts.Pod, errors.InvalidObject | None]:
    """See `Reader.read_complaining`."""
    return reader_of(release).read_complaining(pod)


def salvage_pod(pod: pods.Pod, why: str) -> facts.Pod:
    """See `Reader.salvage`."""
    return reader_of(releases.DEFAULT).salvage(pod, why)


def forget_older() -> None:
    """Forget templates of which no pod was read lately. See `Reader.forget_older`."""
    for reader in _readers.values():
        reader.forget_older()
