"""PUT: replace an object, or create it where the kind allows that."""

from windlass.apiserver import decoding, meta, rendering, status, storage, writing
from windlass.apiserver.call import Answer, Call
from windlass.apiserver.core import Core
from windlass.apiserver.types.model import Json


def update(core: Core, call: Call) -> Answer:
    obj = decoding.read(call, call.read_object())
    _check_name(call, obj)
    meta.match_namespace(obj["metadata"], call.namespace)
    writing.warn_of_duplicates(call, obj)
    stored = core.find(call.resource, call.namespace, call.name)
    if stored is None:
        return _create(core, call, obj)
    check_uid(call, obj["metadata"].get("uid", ""), stored)

    def change(live: Json) -> Json:
        writing.track_update(call, obj, live)
        return obj

    return rendering.answer_object(call, 200, writing.update(core, call, stored, change).raw)


def _create(core: Core, call: Call, obj: Json) -> Answer:
    if not call.resource.strategy.creates_on_update or call.subresource:
        raise status.not_found(call.resource, call.name)
    check_uid(call, obj["metadata"].get("uid", ""), None)
    meta.wipe(obj["metadata"])
    obj["metadata"].pop("resourceVersion", None)
    writing.track_update(call, obj, None)
    return rendering.answer_object(call, 201, writing.create(core, call, obj).raw)


def _check_name(call: Call, obj: Json) -> None:
    said = obj["metadata"].get("name", "")
    if not said:
        message = f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        raise status.bad_request(message)
    if said != call.name:
        message = f"the name of the object ({said}) does not match the name on the URL ({call.name})"
        raise status.bad_request(message)


def check_uid(call: Call, asked: str, stored: storage.Stored | None) -> None:
    """A uid in the object is a precondition, which an object that is not there does not meet either."""
    found, key = ("", f"{call.namespace}/{call.name}") if stored is None else (stored.uid, stored.key)
    if asked and asked != found:
        path = "/".join(part for part in (call.resource.group, call.resource.plural, key) if part)
        why = (
            f"StorageError: invalid object, Code: 4, Key: /registry/{path}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: UID in precondition: {asked}, UID in object meta: {found}"
        )
        raise status.conflict(call.resource, call.name, why)
