"""DaemonSets: the pod that each would add to a new node."""

from dataclasses import replace

import msgspec

from windlass import errors
from windlass.autoscaler.observe import pods
from windlass.engine import facts
from windlass.kube import fields
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
    try:
        spec = models.decode_spec(bytes(raw))
        pod, complaint_of_pod = pods.read_complaining(
            models.Pod(metadata=_name(daemon_set, template.metadata if template else None), spec=raw)
        )
    except (fields.InvalidField, msgspec.MsgspecError) as error:
        complaint = (
            error if isinstance(error, fields.InvalidField) else fields.translate(error, raw, "spec.template.spec")
        )
        raise complaint.of("DaemonSet", metadata.key) from error
    tolerated = (*_TOLERATED, _TOLERATED_ON_HOST_NETWORK) if spec.host_network else _TOLERATED
    added = tuple(facts.Toleration(key, "Exists", "", effect) for key, effect in tolerated)
    read = facts.DaemonSet(
        metadata.namespace or "",
        metadata.name or "",
        metadata.uid or "",
        replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, *added))),
        spec.priority_class_name == CRITICAL and spec.preemption_policy != "Never",
    )
    return read, _attribute(complaint_of_pod, metadata.key)


def _attribute(complaint: errors.InvalidObject | None, name: str) -> errors.InvalidObject | None:
    """The complaint about a pod as one about the DaemonSet whose template it is made from."""
    if complaint is None:
        return None
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
