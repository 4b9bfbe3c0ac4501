"""The claims that a shape's volumes use, and what they say of themselves."""

from collections.abc import Iterator

from windlass.engine import facts, shapes
from windlass.engine.storage import Storage
from windlass.engine.verdict import Reason

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"


def claimed(storage: Storage, shape: shapes.Shape) -> Iterator[tuple[facts.Volume, facts.PersistentVolumeClaim | None]]:
    """The shape's volumes that use a claim, in their order, each with its claim; None where there is none."""
    for volume in shape.spec.volumes:
        if volume.claim:
            yield volume, storage.claims.get((shape.namespace, volume.claim))


def is_named(volume: facts.Volume) -> bool:
    """Does the pod name the claim? Otherwise it was made for the pod (ephemeral)."""
    return volume.source == "persistentVolumeClaim"


def is_bound(claim: facts.PersistentVolumeClaim) -> bool:
    """Bound for good: a claim that merely names a volume still waits for the controller."""
    return bool(claim.volume_name) and BIND_COMPLETED in claim.annotations


def waits_for_consumer(storage: Storage, claim: facts.PersistentVolumeClaim) -> bool:
    storage_class = storage.classes.get(claim.storage_class or "")
    return storage_class is not None and storage_class.waits_for_consumer


def missing(kind: str, name: str) -> Reason:
    """`kind` is in lower case, as the scheduler's listers say it."""
    return Reason('{} "{}" not found', (kind, name))


def missing_claim(volume: facts.Volume) -> Reason:
    return missing("persistentvolumeclaim", volume.claim)


def is_anothers(claim: facts.PersistentVolumeClaim, pod_uid: str) -> bool:
    """The claim of an ephemeral volume must be controlled by the volume's pod."""
    return pod_uid not in claim.owner_uids


def anothers(claim: facts.PersistentVolumeClaim, volume: str) -> Reason:
    """Why an ephemeral volume of this name cannot use the claim: it is called after the pod, but not the pod's own."""
    pod = claim.name.removesuffix(f"-{volume}")
    return Reason("PVC {0}/{1} was not created for pod {0}/{2} (pod is not owner)", (claim.namespace, claim.name, pod))
