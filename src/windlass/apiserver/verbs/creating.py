"""POST: create an object."""

from windlass.apiserver import decoding, meta, rendering, writing
from windlass.apiserver.call import Answer, Call
from windlass.apiserver.core import Core


def create(core: Core, call: Call) -> Answer:
    obj = decoding.read(call, call.read_object())
    meta.wipe(obj["metadata"])
    meta.match_namespace(obj["metadata"], call.namespace)
    writing.warn_of_duplicates(call, obj)
    writing.track_update(call, obj, None)
    written = writing.create(core, call, obj)
    return rendering.answer_object(call, 201, written.raw)
