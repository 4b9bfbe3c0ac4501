"""DaemonSets: the pod that each would add to a new node."""

from dataclasses import replace

import msgspec

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
    metadata = daemon_set.meta
    template = daemon_set.spec.template if daemon_set.spec else None
    raw = template.spec if template else models.NO_SPEC
    try:
        spec = models.decode_spec(bytes(raw))
        pod = pods.read(models.Pod(metadata=_name(daemon_set, template.metadata if template else None), spec=raw))
    except (fields.InvalidField, msgspec.MsgspecError) as error:
        complaint = (
            error if isinstance(error, fields.InvalidField) else fields.translate(error, raw, "spec.template.spec")
        )
        raise complaint.of("DaemonSet", metadata.key) from error
    tolerated = (*_TOLERATED, _TOLERATED_ON_HOST_NETWORK) if spec.host_network else _TOLERATED
    added = tuple(facts.Toleration(key, "Exists", "", effect) for key, effect in tolerated)
    return facts.DaemonSet(
        metadata.namespace or "",
        metadata.name or "",
        metadata.uid or "",
        replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, *added))),
        spec.priority_class_name == CRITICAL and spec.preemption_policy != "Never",
    )


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
