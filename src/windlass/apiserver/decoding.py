"""From a document to an object of a kind: known fields only, in normal form, with defaults."""

from windlass.apiserver import status, storage
from windlass.apiserver.call import Call
from windlass.apiserver.kinds import custom
from windlass.apiserver.types import normalise
from windlass.apiserver.types.model import Json


def read(call: Call, document: Json) -> Json:
    """The object that a request's body spells, as an object of the request's resource, defaulted."""
    _check_kind(call, document)
    try:
        obj, unknown = _normalise(call, document)
    except ValueError as error:
        raise _refuse(call, document, str(error)) from None
    if unknown:
        _report(call, document, unknown)
    call.resource.strategy.default(obj)
    return obj


def _refuse(call: Call, document: Json, why: str) -> status.Refused:
    """A document that is no object of the kind: a bad request, or a patch that leaves a bad object."""
    if call.method == "PATCH":
        error = status.wrong("patch", storage.encode(document).decode(), why)
        return status.invalid_kind("", "", "", [error])
    return status.bad_request(f"{_refer(call)}: {why}")


def _refer(call: Call) -> str:
    kind = call.resource.kind
    return f'{kind} in version "{call.resource.version}" cannot be handled as a {kind}'


def _check_kind(call: Call, document: Json) -> None:
    resource = call.resource
    said = document.get("apiVersion") or resource.api_version
    if said != resource.api_version:
        message = f"the API version in the data ({said}) does not match the expected API version"
        raise status.bad_request(f"{message} ({resource.api_version})")
    kind = document.get("kind") or resource.kind
    if kind != resource.kind:
        version = resource.version
        raise status.bad_request(f'{kind} in version "{version}" cannot be handled as a {resource.kind}')


def _normalise(call: Call, document: Json) -> tuple[Json, list[str]]:
    resource = call.resource
    strategy = resource.strategy
    named = {"kind": resource.kind, "apiVersion": resource.api_version}
    if isinstance(strategy, custom.Custom):
        obj = {**document, **named}
        obj.setdefault("metadata", {})
        return obj, strategy.coerce(obj)
    found: list[str] = []
    obj = strategy.struct.read(document, found) | named
    return obj, normalise.find_unknown(document, strategy.struct.type) if found else []


def complete(call: Call, obj: Json) -> Json:
    """An object that an apply put together, in normal form and with defaults."""
    strategy = call.resource.strategy
    named = {"kind": call.resource.kind, "apiVersion": call.resource.api_version}
    try:
        if isinstance(strategy, custom.Custom):
            strategy.coerce_metadata(obj)
        else:
            obj = strategy.struct.read(obj, []) | named
    except ValueError as error:
        resource = call.resource
        kind = f"{resource.group}/{resource.version}, Kind={resource.kind}"
        why = f"to proper version: unable to convert unstructured object to {kind}: {error}"
        raise status.unclassified(f"failed to convert new object (/{call.name}; {kind}) {why}") from None
    strategy.default(obj)
    return obj


def _report(call: Call, document: Json, unknown: list[str]) -> None:
    """Unknown fields are dropped with a warning, or refused, or dropped in silence: as the client wants it."""
    complaints = [f'unknown field "{path}"' for path in unknown]
    match call.field_validation:
        case "Strict":
            raise _refuse(call, document, f"strict decoding error: {', '.join(complaints)}")
        case "Warn":
            for complaint in complaints:
                call.warn(complaint)
