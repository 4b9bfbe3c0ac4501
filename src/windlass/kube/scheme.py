"""Scheme: the model of each apiVersion and kind, and decoding of objects by it.

Lenient decoding keeps the valid part of an object that cannot be decoded as a whole. It is iterative, so that no
nesting overflows the stack.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from windlass import errors
from windlass.kube import fields
from windlass.kube.models import autoscaling, clusterapi, core, meta, pods, resource

T = TypeVar("T")

MAX_DEPTH = 100
"""Maximum kept depth. Used fields are at most some twenty levels deep; decoders fail at a thousand."""
_MOST_FIELDS = 100
"""Maximum invalid fields that are removed from one object."""
_LONGEST_NUMBER = 40
_LONGEST_KEPT = 512
"""Maximum length of a name or other identifying text."""

_SHALLOW = 3
_OPENING, _CLOSING = (b"{", b"["), (b"}", b"]")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_PATH = re.compile(r".* - at `(?P<path>[^`]*)`", re.DOTALL)
_STEP = re.compile(r"\[\.\.\.\]|\[(\d+)\]|\.?([^.\[\]]+)")
_IDENTITY = {b'"name"': "name", b'"namespace"': "namespace", b'"uid"': "uid", b'"resourceVersion"': "resourceVersion"}


def repair_json(text: bytes) -> bytes:
    """Repair JSON: lone surrogates become U+FFFD, and values below the maximum depth become null."""
    return _cut_depth(_replace_surrogates(text.decode(errors="replace").encode()))


def repair_spec(spec: msgspec.Raw) -> msgspec.Raw:
    """Repair a part of an object that is decoded later."""
    return msgspec.Raw(repair_json(bytes(spec)))


def _replace_surrogates(text: bytes) -> bytes:
    if b"\\u" not in text:
        return text
    parts: list[bytes] = []
    end, high = 0, None
    for match in _ESCAPE.finditer(text):
        code = int(match[1], 16) if match[1] else 0
        follows = high is not None and match.start() == end
        if high is not None and not (follows and 0xDC00 <= code <= 0xDFFF):
            parts[-1] = b"\\ufffd"  # a high surrogate without its low one
        parts += (text[end : match.start()], match[0])
        if 0xDC00 <= code <= 0xDFFF and not follows:
            parts[-1] = b"\\ufffd"
        high = code if 0xD800 <= code <= 0xDBFF else None
        end = match.end()
    if high is not None:
        parts[-1] = b"\\ufffd"
    return b"".join((*parts, text[end:]))


def _cut_depth(text: bytes) -> bytes:
    """Replace arrays and objects below the maximum depth by null."""
    parts: list[bytes] = []
    depth, end, cut_from = 0, 0, 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in _OPENING:
            depth += 1
            if depth == MAX_DEPTH + 1:
                cut_from = match.start()
        elif token in _CLOSING:
            if depth == MAX_DEPTH + 1:
                parts += (text[end:cut_from], b"null")
                end = match.end()
            depth -= 1
    return b"".join((*parts, text[end:])) if parts else text


def split_list(text: bytes) -> tuple[bytes, list[bytes]]:
    """The text of a list without its items, and the text of each item. ValueError if it has no items."""
    items: list[bytes] = []
    depth, begun, ended, start = 0, -1, -1, 0
    key = previous = b""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in _OPENING:
            depth += 1
            if depth == 2 and token == b"[" and key == b'"items"' and begun < 0:
                begun = start = match.end()
        elif token in _CLOSING:
            depth -= 1
            if depth == 1 and begun >= 0 > ended:
                ended = match.start()
                items.append(text[start:ended])
        elif token == b"," and depth == 2 and begun >= 0 > ended:
            items.append(text[start : match.start()])
            start = match.end()
        elif token == b":" and depth == 1:
            key = previous
        previous = token
    if ended < 0:
        raise ValueError("no items")
    return text[:begun] + text[ended:], [item for item in items if item.strip()]


def read_identity(text: bytes, within: tuple[bytes, ...] = ()) -> meta.ObjectMeta:
    """Identity of an object from its text; `within` are enclosing keys, as in a watch event."""
    identity: dict[str, str] = {}
    for around, key, token in _texts(text):
        if key in _IDENTITY and around == (*within, b'"metadata"'):
            identity.setdefault(_IDENTITY[key], _read_text(token))
    return msgspec.convert(identity, meta.ObjectMeta)


def read_event_type(text: bytes) -> str:
    """The type of a watch event; empty if the text has none."""
    return next((_read_text(token) for around, key, token in _texts(text) if not around and key == b'"type"'), "")


def _texts(text: bytes) -> Iterator[tuple[tuple[bytes, ...], bytes, bytes]]:
    """(enclosing keys, key, value) of each string, down to the depth of a watch event's metadata."""
    around: list[bytes] = []
    depth, key, previous = 0, b"", b""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in _OPENING:
            depth += 1
            around[min(depth, _SHALLOW + 1) - 1 :] = [key]
            key = b""
        elif token in _CLOSING:
            depth -= 1
            key = b""
        elif token == b":":
            key = previous
        elif token == b",":
            key = b""
        elif key and token[:1] == b'"' and depth <= _SHALLOW:
            yield tuple(around[1:depth]), key, token
        previous = token


def _read_text(token: bytes) -> str:
    try:
        text = msgspec.json.decode(_replace_surrogates(token), type=str)
    except msgspec.MsgspecError:
        text = token.strip(b'"').decode(errors="replace")
    return text[:_LONGEST_KEPT]


def decode_partial(decoder: "msgspec.json.Decoder[T]", text: bytes) -> T | None:
    """Decode the object without its invalid fields; None if nothing is left."""
    try:
        text = repair_json(text)
        for _ in range(_MOST_FIELDS):
            try:
                return decoder.decode(text)
            except msgspec.ValidationError as error:
                complaint = _PATH.fullmatch(str(error))
                tree = json.loads(text, parse_int=_read_int, parse_float=_read_float)
                if complaint is None or not _null_path(tree, complaint["path"]):
                    return None
                before, text = text, json.dumps(tree).encode()
                if text == before:
                    return None
    except (ValueError, LookupError, TypeError, RecursionError, MemoryError):
        pass
    return None


def _read_int(text: str) -> int | str:
    """Decode an integer; one that exceeds every model is removed like other invalid fields."""
    return int(text) if len(text) <= _LONGEST_NUMBER else text[:_LONGEST_NUMBER]


def _read_float(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text[:_LONGEST_NUMBER]


def _null_path(tree: Any, path: str) -> bool:
    """Set the value at a path to null; without a map key, the whole map. False if the path does not exist."""
    steps: list[str | int] = []
    for match in _STEP.finditer(path.removeprefix("$")):
        if match[0] == "[...]":
            break
        steps.append(int(match[1]) if match[1] else match[2])
    while steps:
        parent = tree
        for step in steps[:-1]:
            parent = parent[step]
        last = steps.pop()
        if isinstance(parent, list) and isinstance(last, int):
            del parent[last]
            return True
        if parent[last] is not None or not steps:  # null is invalid too: remove the parent
            parent[last] = None
            return True
    return False


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
    ("policy/v1", "PodDisruptionBudget"): pods.PodDisruptionBudget,
    ("apps/v1", "ReplicaSet"): pods.ReplicaSet,
    ("apps/v1", "StatefulSet"): pods.StatefulSet,
    ("apps/v1", "DaemonSet"): pods.DaemonSet,
    ("apps/v1", "Deployment"): pods.Deployment,
    ("batch/v1", "Job"): pods.Job,
    ("scheduling.k8s.io/v1", "PriorityClass"): pods.PriorityClass,
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
        kind_name = f"{header.api_version} {header.kind}"
        raise errors.InvalidObject(
            header.kind or "object", _read_name(text), "kind", kind_name, "a kind that is known here"
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
