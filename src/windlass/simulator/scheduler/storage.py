"""Claims, volumes and classes: what the four volume filters look up."""

from collections.abc import Iterator
from dataclasses import dataclass

from windlass.kube import quantity
from windlass.simulator.scheduler.check import CannotTell
from windlass.simulator.scheduler.cluster import ClusterView, Json, annotations_of

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
"""Older than the field, and still stronger than it."""


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """A volume of a pod that is backed by a claim."""

    name: str
    """Of the claim."""
    is_ephemeral: bool
    """The claim is made for the pod from a template and must be the pod's own."""


def claims_used_by(pod: Json) -> Iterator[ClaimUse]:
    for volume in volumes_of(pod):
        use = claim_behind(pod, volume)
        if use is not None:
            yield use


def claim_behind(pod: Json, volume: Json) -> ClaimUse | None:
    """The claim that backs a volume of the pod, if one does."""
    if volume.get("persistentVolumeClaim"):
        return ClaimUse(volume["persistentVolumeClaim"]["claimName"], is_ephemeral=False)
    if volume.get("ephemeral"):
        return ClaimUse(f"{pod['metadata']['name']}-{volume['name']}", is_ephemeral=True)
    return None


def volumes_of(pod: Json) -> list[Json]:
    return pod["spec"].get("volumes") or []


def find_claim(cluster: ClusterView, pod: Json, name: str) -> Json | None:
    """A claim in the pod's namespace."""
    return cluster.find("PersistentVolumeClaim", f"{pod['metadata']['namespace']}/{name}")


def check_owner(pod: Json, claim: Json) -> None:
    """The claim of an ephemeral volume must have been made for this very pod."""
    owners = claim["metadata"].get("ownerReferences") or ()
    controller: Json = next((owner for owner in owners if owner.get("controller")), {})
    if controller.get("uid") != pod["metadata"].get("uid"):
        namespace = pod["metadata"]["namespace"]
        raise CannotTell(
            f"PVC {namespace}/{claim['metadata']['name']} was not created for pod "
            f"{namespace}/{pod['metadata']['name']} (pod is not owner)"
        )


def class_of(claim_or_volume: Json) -> str:
    """Name of the storage class, or nothing."""
    annotations = annotations_of(claim_or_volume)
    if CLASS_ANNOTATION in annotations:
        return annotations[CLASS_ANNOTATION]
    return claim_or_volume["spec"].get("storageClassName") or ""


def waits_for_consumer(storage_class: Json) -> bool:
    """Is the volume chosen only when a pod that uses it is placed?"""
    return bool(storage_class.get("volumeBindingMode") == "WaitForFirstConsumer")


def size_asked_for(claim: Json) -> quantity.Quantity | None:
    requested = (claim["spec"].get("resources") or {}).get("requests") or {}
    return quantity.read(requested["storage"]) if "storage" in requested else None


def not_found(kind: str, name: str) -> str:
    """How an API server's client words a missing object."""
    return f'{kind} "{name}" not found'
