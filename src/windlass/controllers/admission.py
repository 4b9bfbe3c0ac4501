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
"""API servers write it first; further on someone else's object may have one."""


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """What someone wants to store."""

    operation: str
    """CREATE, UPDATE or DELETE."""
    object: Mapping[str, Any]
    """As it would be stored; empty if it is to be deleted."""
    old_object: Mapping[str, Any] | None = None
    """As it is stored, if it is."""


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    """What is thought of it."""

    denial: str = ""
    """Why it may not be stored; empty if it may."""
    warnings: tuple[str, ...] = ()
    """What is told to whoever asked, in any case."""
    mutated: Mapping[str, Any] | None = None
    """What is to be stored in its place; None: what was asked for."""


Webhook = Callable[[AdmissionRequest], AdmissionResponse]


def handle_review(body: bytes, hook: Webhook) -> bytes:
    """InvalidInput if it is no AdmissionReview."""
    try:
        request = msgspec.json.decode(body)["request"]
        asked = AdmissionRequest(request["operation"], request.get("object") or {}, request.get("oldObject"))
        uid = request["uid"]
    except (msgspec.MsgspecError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise errors.InvalidInput(f"found no AdmissionReview, expected one of {_API_VERSION}: {error}") from error
    return _encode_review({"uid": uid, **_encode_response(asked, hook(asked))})


def deny_review(beginning: bytes, why: str) -> bytes | None:
    """A denial of what cannot be judged, from the beginning of an AdmissionReview; None if that names no request.

    An error of ours would let it pass: the API server takes it for a webhook that is down, and policies may say Ignore.
    """
    uid = _UID.search(beginning)
    if uid is None:
        return None
    return _encode_review(
        {"uid": uid[1].decode(), **_encode_response(AdmissionRequest("", {}), AdmissionResponse(why))}
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
    """The JSON patch that makes one of the other. Lists are replaced whole."""
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
