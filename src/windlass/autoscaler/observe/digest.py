"""Digest: a short name for a pod's whole spec, less what never matters to scheduling.

Two specs have one digest if Cluster Autoscaler takes them for equal: environment, hostname and projected volumes with
their mounts are left out, quantities count by amount, and an empty list or map is the same as none.
"""

import hashlib
from typing import Any

import msgspec

from windlass.kube import fields

_AMOUNTS = ("requests", "limits", "overhead")
_AMOUNT = ("sizeLimit", "divisor")
_MAPS = ("nodeSelector", "matchLabels", "labels", "annotations", "volumeAttributes", "resources", *_AMOUNTS)
"""Fields in which an empty map means the same as none. Elsewhere it means something: `emptyDir: {}`."""


def of_spec(spec: bytes | msgspec.Raw) -> str:
    """Name a spec that `models.pods.decode_spec` can read. It says nothing of the node that the pod is on."""
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
    """The tree without what is empty, and with one spelling for each amount."""
    if isinstance(value, dict):
        if field in _AMOUNTS:
            return {name: fields.read_quantity(amount, f"{at}[{name}]").nano for name, amount in value.items()}
        children = ((name, _normalise(child, f"{at}.{name}", name)) for name, child in value.items())
        return {name: child for name, child in children if not _is_nothing(child, name)}
    if isinstance(value, list):
        return [_normalise(child, f"{at}[{i}]") for i, child in enumerate(value)]
    return fields.read_quantity(value, at).nano if field in _AMOUNT else value


def _is_nothing(value: Any, field: str) -> bool:
    return value is None or value == [] or (value == {} and field in _MAPS)
