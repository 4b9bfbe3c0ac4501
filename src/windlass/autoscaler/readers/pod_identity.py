"""Pod identity: template key and digest of a pod spec, without fields that differ between pods of one template.

The node name, the token volume's generated name and the DaemonSet controller's node affinity are left out.
"""

import hashlib
from typing import Any

import msgspec

from windlass import selectors
from windlass.kube import fields
from windlass.kube.models import meta

_AMOUNT_MAPS = ("requests", "limits", "overhead")

_AMOUNT_FIELDS = ("sizeLimit", "divisor")

_MAPS = ("nodeSelector", "matchLabels", "labels", "annotations", "volumeAttributes", "resources", *_AMOUNT_MAPS)
"""Fields in which an empty map equals an absent one. Elsewhere it does not: `emptyDir: {}`."""


def spec_digest(spec: bytes | msgspec.Raw) -> str:
    """Return the digest of a spec that `models.pods.decode_spec` can read, without the node that the pod is on."""
    tree = msgspec.json.decode(spec) or {}
    tree.pop("nodeName", None)
    tree.pop("hostname", None)
    projected = {volume.get("name") for volume in tree.get("volumes") or () if volume.get("projected") is not None}
    tree["volumes"] = [volume for volume in tree.get("volumes") or () if volume.get("projected") is None]
    for containers in ("containers", "initContainers"):
        for container in tree.get(containers) or ():
            container.pop("env", None)
            mounts = container.get("volumeMounts") or ()
            container["volumeMounts"] = [mount for mount in mounts if mount.get("name") not in projected]
    text = msgspec.json.encode(_normalise(tree, "spec"), order="sorted")
    return hashlib.blake2b(text, digest_size=12).hexdigest()


def _normalise(value: Any, at: str, field: str = "") -> Any:
    """Normalise a tree: drop empty values, and canonicalise quantities."""
    if isinstance(value, dict):
        if field in _AMOUNT_MAPS:
            return {name: fields.read_quantity(amount, f"{at}[{name}]").nano for name, amount in value.items()}
        children = ((name, _normalise(child, f"{at}.{name}", name)) for name, child in value.items())
        return {name: child for name, child in children if not _is_nothing(child, name)}
    if isinstance(value, list):
        return [_normalise(child, f"{at}[{i}]") for i, child in enumerate(value)]
    return fields.read_quantity(value, at).nano if field in _AMOUNT_FIELDS else value


def _is_nothing(value: Any, field: str) -> bool:
    return value is None or value == [] or (value == {} and field in _MAPS)


_TOKEN_VOLUME = b'"kube-api-access-'

_PIN_FIELD = b'"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":'

_PIN = b'{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["'

_PIN_END = b'"]}]}]}'
"""Text around the node name in the node affinity that the DaemonSet controller writes: one term, one field, one value.
The API server always formats it like this; other forms are read as ordinary affinity."""


def template_key(spec: bytes, node_name: str, metadata: meta.ObjectMeta) -> bytes:
    """Return a key that is equal for pods whose specs differ only in node name and token volume name."""
    if b'"matchLabelKeys"' in spec:
        own = f"{metadata.namespace} {sorted((metadata.labels or {}).items())}"
    else:
        own = metadata.namespace or ""
    text = _blank_token_volume(spec)
    field = b'"nodeName":"%s"' % node_name.encode()
    before, _, after = text.partition(field)
    # A second occurrence means something else, such as a label value.
    if field in after:
        before, after = text, b""
    key = hashlib.sha256(before)
    key.update(after)
    key.update(own.encode())
    return key.digest()


def strip_node_pin(spec: bytes) -> tuple[bytes, str]:
    """Return a DaemonSet pod's spec without the node affinity that pins it, and the node, if any."""
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


def node_pin_affinity(node_name: str) -> selectors.NodeSelector:
    named = selectors.Requirement("metadata.name", selectors.Operator.IN, (node_name,))
    return selectors.NodeSelector((selectors.NodeSelectorTerm((), (named,)),))


def pod_digest(of_template: str, asked_for: str, pinned_to: str) -> str:
    """Return the digest of a pod's spec: of its template and its pinned node."""
    if not asked_for and not pinned_to:
        return of_template
    asked = f"@{asked_for}" if asked_for else ""
    return f"{of_template}{asked} pinned to {pinned_to}" if pinned_to else of_template + asked


def _blank_token_volume(spec: bytes) -> bytes:
    """Return the spec with a fixed name for the projected token volume of the API server."""
    start = spec.find(_TOKEN_VOLUME)
    if start < 0:
        return spec
    name = spec[start : spec.index(b'"', start + 1) + 1]
    return spec.replace(name, _TOKEN_VOLUME) if name + b',"projected":' in spec else spec
