"""Resources: where objects of a kind live on the server, and what they are read as.

A resource is read as a model of `windlass.kube.scheme`, which is narrow and checked, or as the JSON it is (`untyped`),
which keeps every field and so is what writes are made from. Kinds that are not listed here are found by `discovery`.
"""

import dataclasses
import functools
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast
from urllib import parse

import msgspec

from windlass import errors, klog
from windlass.kube import fields, scheme
from windlass.kube.models import autoscaling, clusterapi, core, meta, pods, resource

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
M = TypeVar("M", bound=meta.Object)

Unstructured = dict[str, Any]
"""An object as JSON."""

_SAFE = ":@!$&'()*+,;=~"
"""Characters that stay unencoded in a path segment, besides letters and digits."""


@functools.lru_cache(maxsize=4096)
def _quote(segment: str) -> str:
    return parse.quote(segment, safe=_SAFE)


UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Exceptions of decoders: wrong type, invalid UTF-8, nesting too deep."""


class _Identity(meta.Object, frozen=True):
    """apiVersion, kind and metadata of a malformed object."""


@dataclass(frozen=True, slots=True)
class Unreadable(Generic[T_co]):
    """A malformed object."""

    metadata: meta.ObjectMeta
    """Its metadata, as far as it is readable."""
    error: errors.InvalidObject
    partial: T_co | None = None
    """The object without its invalid fields; None if nothing is left."""
    is_whole: bool = False
    """True if `partial` has every field of the model: only deeper parts were cut."""


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """A resource, decoded as `T`."""

    api_version: str
    """`v1`, `apps/v1`."""
    plural: str
    kind: str
    namespaced: bool
    model: type[T]

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Path of the collection, an object or a subresource; without namespace of all namespaces."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        within = ("namespaces", namespace) if namespace and self.namespaced else ()
        segments = [segment for segment in (*within, self.plural, name, *subresource.split("/")) if segment]
        return "/".join([root, *(_quote(segment) for segment in segments)])

    def untyped(self) -> "Resource[Unstructured]":
        """The resource, decoded as JSON."""
        return Resource(self.api_version, self.plural, self.kind, self.namespaced, Unstructured)

    def read_as(self, model: type[M]) -> "Resource[M]":
        """The resource, decoded as another model."""
        return Resource(self.api_version, self.plural, self.kind, self.namespaced, model)

    def at(self, api_version: str) -> "Resource[T]":
        """The resource in another version or group."""
        return dataclasses.replace(self, api_version=api_version)

    @property
    def is_untyped(self) -> bool:
        return cast(object, self.model) is Unstructured

    def read(self, raw: bytes | msgspec.Raw) -> "T | Unreadable[T]":
        """Decode an object, or its valid part. Raises nothing."""
        try:
            return self.decode(raw)
        except Exception as error:
            return self._decode_partial(bytes(raw), error)

    def _decode_partial(self, raw: bytes, error: Exception) -> "Unreadable[T]":
        metadata = self.read_identity(raw)
        complaint = self.to_invalid_object(metadata, error)
        mended = scheme.repair_json(raw)
        if mended != raw and not isinstance(mended_object := self.read(mended), Unreadable):
            return self.to_unreadable(mended_object, complaint)
        if self.is_untyped:
            return Unreadable(metadata, complaint)
        partial = scheme.decode_partial(decoder(self.model), mended)
        if isinstance(partial, meta.Object) and partial.meta.name != metadata.name:
            partial = cast(T, msgspec.structs.replace(partial, metadata=metadata))  # decoded separately
        return Unreadable(metadata, complaint, partial)

    def to_unreadable(self, obj: T, complaint: errors.InvalidObject) -> "Unreadable[T]":
        """A malformed object whose text had to be repaired."""
        if self.is_untyped:  # untyped objects are written back: a part would erase the rest
            return Unreadable(self.metadata(obj), complaint)
        return Unreadable(self.metadata(obj), complaint, obj, is_whole=True)

    def to_invalid_object(self, metadata: meta.ObjectMeta, error: BaseException) -> errors.InvalidObject:
        """See the function `to_invalid_object`."""
        return to_invalid_object(self.kind, metadata, error)

    def to_invalid_text(self, metadata: meta.ObjectMeta, error: Exception) -> errors.InvalidObject:
        """The error of a text that no decoder accepts: nested too deep, or invalid UTF-8."""
        name = metadata.key or "without a name"
        if isinstance(error, RecursionError):
            return errors.InvalidObject(self.kind, name, "the object", "more levels", f"at most {scheme.MAX_DEPTH}")
        return errors.InvalidObject(self.kind, name, "the object", str(error), "valid JSON")

    def decode(self, raw: bytes | msgspec.Raw) -> T:
        """Decode an object. InvalidObject if it is malformed."""
        try:
            obj = decoder(self.model).decode(raw)
        except msgspec.MsgspecError as error:
            raise fields.translate_decode_error(error, raw).of(
                self.kind, self.read_identity(raw).key or "without a name"
            ) from error
        except UNDECODABLE as error:
            raise self.to_invalid_text(self.read_identity(raw), error) from error
        if isinstance(obj, dict):
            # items of typed lists have no apiVersion and kind
            obj.setdefault("apiVersion", self.api_version)
            obj.setdefault("kind", self.kind)
            read_meta(obj, self.kind)
        return obj

    def metadata(self, obj: T) -> meta.ObjectMeta:
        """The metadata of an object of this resource."""
        if isinstance(obj, meta.Object):
            return obj.meta
        return read_meta(cast(Mapping[str, Any], obj), self.kind)

    def read_identity(self, raw: bytes | msgspec.Raw) -> meta.ObjectMeta:
        """apiVersion, kind and metadata of a malformed object, as far as they are readable."""
        try:
            return decoder(_Identity).decode(raw).meta
        except UNDECODABLE:
            return scheme.read_identity(bytes(raw))


def to_invalid_object(kind: str, metadata: meta.ObjectMeta, error: BaseException) -> errors.InvalidObject:
    """Convert an exception to InvalidObject; unexpected ones are reported."""
    name = metadata.key or "without a name"
    if isinstance(error, errors.InvalidObject):
        return error
    klog.report_error(klog.ErrorPlace.INFORMER, f"{kind} {name}", metadata.resource_version or "", error)
    found = f"{type(error).__name__}: {klog.describe_error(error)}"
    return errors.InvalidObject(kind, name, "the object", found, "an object that can be handled")


def read_meta(obj: Mapping[str, Any], kind: str = "object") -> meta.ObjectMeta:
    """Metadata of a JSON object. InvalidObject if it is invalid."""
    metadata = obj.get("metadata") or {}
    try:
        return msgspec.convert(metadata, meta.ObjectMeta)
    except msgspec.ValidationError as error:
        name = scheme.read_identity(msgspec.json.encode({"metadata": metadata})).key or "without a name"
        raise fields.translate_decode_error(error, msgspec.json.encode(metadata), "metadata").of(kind, name) from error


@functools.cache
def _decoder(model: Hashable) -> Any:
    return msgspec.json.Decoder(model)


def decoder(model: type[T]) -> msgspec.json.Decoder[T]:
    """The cached decoder of a model."""
    return cast(msgspec.json.Decoder[T], _decoder(cast(Hashable, model)))


NODES = Resource("v1", "nodes", "Node", False, core.Node)
PODS = Resource("v1", "pods", "Pod", True, pods.Pod)
"""Pods whose specs stay JSON, for sinks that share them between pods. Others use DECODED_PODS."""
DECODED_PODS = PODS.read_as(pods.DecodedPod)
NAMESPACES = Resource("v1", "namespaces", "Namespace", False, core.Namespace)
PERSISTENT_VOLUMES = Resource("v1", "persistentvolumes", "PersistentVolume", False, core.PersistentVolume)
PERSISTENT_VOLUME_CLAIMS = Resource(
    "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, core.PersistentVolumeClaim
)
REPLICATION_CONTROLLERS = Resource(
    "v1", "replicationcontrollers", "ReplicationController", True, core.ReplicationController
)
SERVICES = Resource("v1", "services", "Service", True, core.Service)
CONFIG_MAPS = Resource("v1", "configmaps", "ConfigMap", True, core.ConfigMap)
SECRETS = Resource("v1", "secrets", "Secret", True, core.Secret)
EVENTS = Resource("v1", "events", "Event", True, core.Event)
POD_TEMPLATES = Resource("v1", "podtemplates", "PodTemplate", True, pods.PodTemplate)
DAEMON_SETS = Resource("apps/v1", "daemonsets", "DaemonSet", True, pods.DaemonSet)
REPLICA_SETS = Resource("apps/v1", "replicasets", "ReplicaSet", True, pods.ReplicaSet)
STATEFUL_SETS = Resource("apps/v1", "statefulsets", "StatefulSet", True, pods.StatefulSet)
DEPLOYMENTS = Resource("apps/v1", "deployments", "Deployment", True, pods.Deployment)
JOBS = Resource("batch/v1", "jobs", "Job", True, pods.Job)
POD_DISRUPTION_BUDGETS = Resource(
    "policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", True, pods.PodDisruptionBudget
)
STORAGE_CLASSES = Resource("storage.k8s.io/v1", "storageclasses", "StorageClass", False, core.StorageClass)
CSI_NODES = Resource("storage.k8s.io/v1", "csinodes", "CSINode", False, core.CSINode)
CSI_DRIVERS = Resource("storage.k8s.io/v1", "csidrivers", "CSIDriver", False, core.CSIDriver)
CSI_STORAGE_CAPACITIES = Resource(
    "storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity", True, core.CSIStorageCapacity
)
VOLUME_ATTACHMENTS = Resource(
    "storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", False, core.VolumeAttachment
)
PRIORITY_CLASSES = Resource("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", False, pods.PriorityClass)
LEASES = Resource("coordination.k8s.io/v1", "leases", "Lease", True, core.Lease)
RESOURCE_SLICES = Resource("resource.k8s.io/v1", "resourceslices", "ResourceSlice", False, resource.ResourceSlice)
RESOURCE_CLAIMS = Resource("resource.k8s.io/v1", "resourceclaims", "ResourceClaim", True, resource.ResourceClaim)
RESOURCE_CLAIM_TEMPLATES = Resource(
    "resource.k8s.io/v1", "resourceclaimtemplates", "ResourceClaimTemplate", True, resource.ResourceClaimTemplate
)
DEVICE_CLASSES = Resource("resource.k8s.io/v1", "deviceclasses", "DeviceClass", False, resource.DeviceClass)
DEVICE_TAINT_RULES = Resource(
    "resource.k8s.io/v1", "devicetaintrules", "DeviceTaintRule", False, resource.DeviceTaintRule
)

PROVISIONING_REQUESTS = Resource(
    "autoscaling.x-k8s.io/v1", "provisioningrequests", "ProvisioningRequest", True, autoscaling.ProvisioningRequest
)
CAPACITY_BUFFERS = Resource(
    "autoscaling.x-k8s.io/v1beta1", "capacitybuffers", "CapacityBuffer", True, autoscaling.CapacityBuffer
)
CAPACITY_QUOTAS = Resource(
    "autoscaling.x-k8s.io/v1beta1", "capacityquotas", "CapacityQuota", False, autoscaling.CapacityQuota
)

CLUSTERS = Resource("cluster.x-k8s.io/v1beta2", "clusters", "Cluster", True, clusterapi.Cluster)
MACHINE_DEPLOYMENTS = Resource(
    "cluster.x-k8s.io/v1beta2", "machinedeployments", "MachineDeployment", True, clusterapi.MachineDeployment
)
MACHINE_SETS = Resource("cluster.x-k8s.io/v1beta2", "machinesets", "MachineSet", True, clusterapi.MachineSet)
MACHINES = Resource("cluster.x-k8s.io/v1beta2", "machines", "Machine", True, clusterapi.Machine)
MACHINE_POOLS = Resource("cluster.x-k8s.io/v1beta2", "machinepools", "MachinePool", True, clusterapi.MachinePool)
MACHINE_DRAIN_RULES = Resource(
    "cluster.x-k8s.io/v1beta2", "machinedrainrules", "MachineDrainRule", True, clusterapi.MachineDrainRule
)
