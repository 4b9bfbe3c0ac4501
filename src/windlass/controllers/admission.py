"""Admission webhooks: AdmissionReview (admission.k8s.io/v1) in, AdmissionReview out. Pure.

A handler gets an `AdmissionRequest` and returns an `AdmissionResponse`; a mutated object becomes a JSON patch.
Controllers validate again what a webhook validates, since the webhook may be down.
"""

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass import errors

Json = dict[str, Any]

_API_VERSION = "admission.k8s.io/v1"
_UID = re.compile(rb'"request"\s*:\s*\{\s*"uid"\s*:\s*"([A-Za-z0-9-]{1,64})"')
"""The uid of the request. kube-apiserver writes it first; a later match could be the uid of a nested object."""


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """An admission request: the object to be stored and the stored one."""

    operation: str
    """CREATE, UPDATE or DELETE."""
    object: Mapping[str, Any]
    """The object after the operation; empty for DELETE."""
    old_object: Mapping[str, Any] | None = None
    """The stored object; None for CREATE."""


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    """The response of a webhook handler."""

    denial: str = ""
    """Message of the denial; empty if the request is allowed."""
    warnings: tuple[str, ...] = ()
    """Warnings for the client, sent with allowed and denied requests."""
    mutated: Mapping[str, Any] | None = None
    """The mutated object; None if the handler changes nothing."""


Webhook = Callable[[AdmissionRequest], AdmissionResponse]


def handle_review(body: bytes, hook: Webhook) -> bytes:
    """Answer an AdmissionReview. InvalidInput if the body is not one."""
    try:
        request = msgspec.json.decode(body)["request"]
        asked = AdmissionRequest(request["operation"], request.get("object") or {}, request.get("oldObject"))
        uid = request["uid"]
    except (msgspec.MsgspecError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise errors.InvalidInput(f"found no AdmissionReview, expected one of {_API_VERSION}: {error}") from error
    return _encode_review({"uid": uid, **_encode_response(asked, hook(asked))})


def deny_review(beginning: bytes, reason: str) -> bytes | None:
    """A denial for a review that cannot be decoded; None if its uid cannot be found.

    An HTTP error would count as an unavailable webhook, and with failurePolicy Ignore the request would be allowed.
    """
    uid = _UID.search(beginning)
    if uid is None:
        return None
    return _encode_review(
        {"uid": uid[1].decode(), **_encode_response(AdmissionRequest("", {}), AdmissionResponse(reason))}
    )


def _encode_review(response: Json) -> bytes:
    return msgspec.json.encode({"apiVersion": _API_VERSION, "kind": "AdmissionReview", "response": response})


def _encode_response(asked: AdmissionRequest, answer: AdmissionResponse) -> Json:
    response: Json = {"allowed": not answer.denial}
    if answer.denial:
        response["status"] = {"code": 403, "reason": "Forbidden", "message": answer.denial}
    if answer.warnings:
        response["warnings"] = list(answer.warnings)
    if answer.mutated is not None and (patch := list(json_patch(asked.object, answer.mutated))):
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(patch)).decode()}
    return response


def json_patch(before: Mapping[str, Any], after: Mapping[str, Any], path: str = "") -> Iterator[Json]:
    """The JSON patch (RFC 6902) from `before` to `after`. Lists are replaced whole."""
    for name in before:
        if name not in after:
            yield {"op": "remove", "path": f"{path}/{_escape_pointer(name)}"}
    for name, value in after.items():
        at = f"{path}/{_escape_pointer(name)}"
        if name not in before:
            yield {"op": "add", "path": at, "value": value}
        elif isinstance(value, Mapping) and isinstance(before[name], Mapping):
            yield from json_patch(before[name], value, at)
        elif before[name] != value:
            yield {"op": "replace", "path": at, "value": value}


def _escape_pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
