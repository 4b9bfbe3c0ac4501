"""Scheme: the model of each apiVersion and kind, and decoding of objects by it."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from windlass import errors
from windlass.kube import fields
from windlass.kube.models import autoscaling, clusterapi, core, meta, pods, resource, workloads

KINDS: dict[tuple[str, str], type[meta.Object]] = {
    ("v1", "Node"): core.Node,
    ("v1", "Pod"): pods.Pod,
    ("v1", "Namespace"): core.Namespace,
    ("v1", "PersistentVolume"): core.PersistentVolume,
    ("v1", "PersistentVolumeClaim"): core.PersistentVolumeClaim,
    ("v1", "ReplicationController"): core.ReplicationController,
    ("storage.k8s.io/v1", "StorageClass"): core.StorageClass,
    ("storage.k8s.io/v1", "CSINode"): core.CSINode,
    ("storage.k8s.io/v1", "CSIDriver"): core.CSIDriver,
    ("storage.k8s.io/v1", "CSIStorageCapacity"): core.CSIStorageCapacity,
    ("storage.k8s.io/v1", "VolumeAttachment"): core.VolumeAttachment,
    ("policy/v1", "PodDisruptionBudget"): workloads.PodDisruptionBudget,
    ("apps/v1", "ReplicaSet"): workloads.ReplicaSet,
    ("apps/v1", "StatefulSet"): workloads.StatefulSet,
    ("apps/v1", "DaemonSet"): workloads.DaemonSet,
    ("apps/v1", "Deployment"): workloads.Deployment,
    ("batch/v1", "Job"): workloads.Job,
    ("scheduling.k8s.io/v1", "PriorityClass"): workloads.PriorityClass,
    ("v1", "Service"): core.Service,
    ("v1", "ConfigMap"): core.ConfigMap,
    ("v1", "Secret"): core.Secret,
    ("v1", "Event"): core.Event,
    ("v1", "PodTemplate"): pods.PodTemplate,
    ("autoscaling.x-k8s.io/v1", "ProvisioningRequest"): autoscaling.ProvisioningRequest,
    ("autoscaling.x-k8s.io/v1beta1", "ProvisioningRequest"): autoscaling.ProvisioningRequest,
    ("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer"): autoscaling.CapacityBuffer,
    ("autoscaling.x-k8s.io/v1beta1", "CapacityQuota"): autoscaling.CapacityQuota,
    ("coordination.k8s.io/v1", "Lease"): core.Lease,
    ("resource.k8s.io/v1", "ResourceSlice"): resource.ResourceSlice,
    ("resource.k8s.io/v1", "ResourceClaim"): resource.ResourceClaim,
    ("resource.k8s.io/v1", "ResourceClaimTemplate"): resource.ResourceClaimTemplate,
    ("resource.k8s.io/v1", "DeviceClass"): resource.DeviceClass,
    ("resource.k8s.io/v1", "DeviceTaintRule"): resource.DeviceTaintRule,
    ("cluster.x-k8s.io/v1beta2", "Cluster"): clusterapi.Cluster,
    ("cluster.x-k8s.io/v1beta2", "MachineDeployment"): clusterapi.MachineDeployment,
    ("cluster.x-k8s.io/v1beta2", "MachineSet"): clusterapi.MachineSet,
    ("cluster.x-k8s.io/v1beta2", "Machine"): clusterapi.Machine,
    ("cluster.x-k8s.io/v1beta2", "MachinePool"): clusterapi.MachinePool,
    ("cluster.x-k8s.io/v1beta2", "MachineDrainRule"): clusterapi.MachineDrainRule,
    ("cluster.x-k8s.io/v1beta1", "Cluster"): clusterapi.Cluster,
    ("cluster.x-k8s.io/v1beta1", "MachineDeployment"): clusterapi.MachineDeployment,
    ("cluster.x-k8s.io/v1beta1", "MachineSet"): clusterapi.MachineSet,
    ("cluster.x-k8s.io/v1beta1", "Machine"): clusterapi.Machine,
    ("cluster.x-k8s.io/v1beta1", "MachinePool"): clusterapi.MachinePool,
    ("cluster.x-k8s.io/v1beta1", "MachineDrainRule"): clusterapi.MachineDrainRule,
}
"""Models by (apiVersion, kind)."""

Json = bytes | str | msgspec.Raw
Raw = Json | Mapping[str, Any]
"""An object as JSON text, or as the values of a YAML parser."""


class TypeHeader(msgspec.Struct, frozen=True, rename="camel"):
    """apiVersion and kind; of a list also its items."""

    api_version: str | None = None
    kind: str | None = None
    items: list[msgspec.Raw] | None = None

    @property
    def is_list(self) -> bool:
        return self.items is not None and (self.kind or "").endswith("List")

    @property
    def of_items(self) -> "TypeHeader | None":
        """The apiVersion and kind of the items of a typed list (PodList: Pod); None for a List."""
        return None if self.kind == "List" else TypeHeader(self.api_version, (self.kind or "").removesuffix("List"))


Model = TypeVar("Model", bound=meta.Object)

_NAMELESS = "without a name"
_UNDECODABLE = (UnicodeDecodeError, RecursionError)
_HEADER = msgspec.json.Decoder(TypeHeader)
_DECODERS = {model: msgspec.json.Decoder(model) for model in KINDS.values()}


def decode_object(raw: Raw, header: TypeHeader | None = None) -> meta.Object:
    """Decode an object.

    `header` gives apiVersion and kind if the object lacks them. InvalidObject if it is malformed.
    """
    text = as_json(raw)
    header = header or read_header(text)
    model = KINDS.get((header.api_version or "", header.kind or ""))
    if model is None:
        found = f"{header.api_version} {header.kind}"
        raise errors.InvalidObject(
            header.kind or "object", _read_name(text), "kind", found, "a kind that is known here"
        )
    return decode_as(model, text)


def decode_as(model: type[Model], raw: Raw) -> Model:
    """Decode an object of a known model."""
    text = as_json(raw)
    try:
        return _DECODERS[model].decode(text)  # type: ignore[return-value]
    except msgspec.MsgspecError as error:
        raise fields.translate_decode_error(error, text).of(model.__name__, _read_name(text)) from error
    except _UNDECODABLE as error:
        raise errors.InvalidObject(
            model.__name__, _read_name(text), "the object", str(error), "what can be decoded"
        ) from error


def read_header(raw: Raw) -> TypeHeader:
    """The apiVersion and kind of an object. InvalidObject if it is no object."""
    text = as_json(raw)
    try:
        return _HEADER.decode(text)
    except msgspec.MsgspecError as error:
        raise fields.translate_decode_error(error, text).of("object", _read_name(text)) from error
    except _UNDECODABLE as error:
        raise errors.InvalidObject(
            "object", _read_name(text), "the object", str(error), "what can be decoded"
        ) from error


def as_json(raw: Raw) -> Json:
    """The object as JSON. InvalidObject if it is not representable, such as a YAML key that is a list."""
    if isinstance(raw, bytes | str | msgspec.Raw):
        return raw
    try:
        return msgspec.json.encode(raw)
    except (TypeError, ValueError, RecursionError) as error:
        raise errors.InvalidObject(
            "object", "without a name", "the object", str(error), "what JSON can hold"
        ) from error


def _read_name(text: Json) -> str:
    """`namespace/name` of a malformed object, as far as it is readable."""
    try:
        metadata = msgspec.json.decode(text)["metadata"]
        return "/".join(str(metadata[key]) for key in ("namespace", "name") if metadata.get(key))
    except (msgspec.MsgspecError, LookupError, TypeError, AttributeError, *_UNDECODABLE):
        return _NAMELESS
