"""Reviewing: an AdmissionReview (admission.k8s.io/v1) in, an AdmissionReview out. Pure."""

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
class Asked:
    """What someone wants to store."""

    operation: str
    """CREATE, UPDATE or DELETE."""
    found: Mapping[str, Any]
    """As it would be stored; empty if it is to be deleted."""
    before: Mapping[str, Any] | None = None
    """As it is stored, if it is."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is thought of it."""

    refusal: str = ""
    """Why it may not be stored; empty if it may."""
    warnings: tuple[str, ...] = ()
    """What is told to whoever asked, in any case."""
    made: Mapping[str, Any] | None = None
    """What is to be stored in its place; None: what was asked for."""


Hook = Callable[[Asked], Answer]


def review(body: bytes, hook: Hook) -> bytes:
    """InvalidInput if it is no AdmissionReview."""
    try:
        request = msgspec.json.decode(body)["request"]
        asked = Asked(request["operation"], request.get("object") or {}, request.get("oldObject"))
        uid = request["uid"]
    except (msgspec.MsgspecError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise errors.InvalidInput(f"found no AdmissionReview, expected one of {_API_VERSION}: {error}") from error
    return _write({"uid": uid, **_spell(asked, hook(asked))})


def refuse(beginning: bytes, why: str) -> bytes | None:
    """A denial of what cannot be judged, from the beginning of an AdmissionReview; None if that names no request.

    An error of ours would let it pass: the API server takes it for a webhook that is down, and policies may say Ignore.
    """
    uid = _UID.search(beginning)
    if uid is None:
        return None
    return _write({"uid": uid[1].decode(), **_spell(Asked("", {}), Answer(why))})


def _write(response: Json) -> bytes:
    return msgspec.json.encode({"apiVersion": _API_VERSION, "kind": "AdmissionReview", "response": response})


def _spell(asked: Asked, answer: Answer) -> Json:
    response: Json = {"allowed": not answer.refusal}
    if answer.refusal:
        response["status"] = {"code": 403, "reason": "Forbidden", "message": answer.refusal}
    if answer.warnings:
        response["warnings"] = list(answer.warnings)
    if answer.made is not None and (patch := list(compare(asked.found, answer.made))):
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(patch)).decode()}
    return response


def compare(before: Mapping[str, Any], after: Mapping[str, Any], path: str = "") -> Iterator[Json]:
    """The JSON patch that makes one of the other. Lists are replaced whole."""
    for name in before:
        if name not in after:
            yield {"op": "remove", "path": f"{path}/{_escape(name)}"}
    for name, value in after.items():
        at = f"{path}/{_escape(name)}"
        if name not in before:
            yield {"op": "add", "path": at, "value": value}
        elif isinstance(value, Mapping) and isinstance(before[name], Mapping):
            yield from compare(before[name], value, at)
        elif before[name] != value:
            yield {"op": "replace", "path": at, "value": value}


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
