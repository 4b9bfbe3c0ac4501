"""DaemonSets: the pod that each would add to a new node."""

from dataclasses import replace

import msgspec

from windlass import errors
from windlass.autoscaler.observe import pods
from windlass.engine import facts
from windlass.kube import salvage
from windlass.kube.models import apps, meta
from windlass.kube.models import pods as models

CRITICAL = "system-node-critical"

_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_TOLERATED_ON_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", "NoSchedule")


def read(daemon_set: apps.DaemonSet) -> facts.DaemonSet:
    """The DaemonSet with its pod, as its controller would make it. InvalidObject if that cannot be read."""
    return read_complaining(daemon_set)[0]


def read_complaining(daemon_set: apps.DaemonSet) -> tuple[facts.DaemonSet, errors.InvalidObject | None]:
    """The DaemonSet, and what of its pod does not count as it is written. See `pods.Reader.read_complaining`."""
    metadata = daemon_set.meta
    template = daemon_set.spec.template if daemon_set.spec else None
    raw = template.spec if template else models.NO_SPEC
    made = models.Pod(metadata=_name(daemon_set, template.metadata if template else None), spec=raw)
    try:
        pod, complaint = pods.read_complaining(made)
    except errors.InvalidObject as error:
        raise _attribute(error, metadata.key) from error
    spec = _decode_spec(raw)
    tolerated = (*_TOLERATED, _TOLERATED_ON_HOST_NETWORK) if spec.host_network else _TOLERATED
    added = tuple(facts.Toleration(key, "Exists", "", effect) for key, effect in tolerated)
    read = facts.DaemonSet(
        metadata.namespace or "",
        metadata.name or "",
        metadata.uid or "",
        replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, *added))),
        spec.priority_class_name == CRITICAL and spec.preemption_policy != "Never",
    )
    return read, None if complaint is None else _attribute(complaint, metadata.key)


def _decode_spec(raw: msgspec.Raw) -> models.PodSpec:
    try:
        return models.decode_spec(bytes(raw))
    except RecursionError:
        return models.decode_spec(bytes(salvage.mend_spec(raw)))


def _attribute(complaint: errors.InvalidObject, name: str) -> errors.InvalidObject:
    """The complaint about a pod as one about the DaemonSet whose template it is made from."""
    return replace(complaint, kind="DaemonSet", name=name, field=f"spec.template.{complaint.field}")


def _name(daemon_set: apps.DaemonSet, template: meta.ObjectMeta | None) -> meta.ObjectMeta:
    """The metadata of its pod. Such a pod has no uid: it does not exist."""
    owner = daemon_set.meta
    given = template or meta.NO_META
    return meta.ObjectMeta(
        name=owner.name,
        namespace=owner.namespace,
        labels=given.labels,
        annotations=given.annotations,
        owner_references=[
            meta.OwnerReference(
                api_version="apps/v1", kind="DaemonSet", name=owner.name, uid=owner.uid, controller=True
            )
        ],
    )
