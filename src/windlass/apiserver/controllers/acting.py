"""How a controller writes: the same way as a client, under the controller manager's name."""

from dataclasses import replace

from windlass.apiserver import times, writing
from windlass.apiserver.call import Call
from windlass.apiserver.core import Core
from windlass.apiserver.registry import Resource
from windlass.apiserver.storage import Stored
from windlass.apiserver.verbs import deleting

_AGENT = {"user-agent": "kube-controller-manager"}


def make_call(core: Core, resource: Resource, stored: Stored, subresource: str = "") -> Call:
    now_s = core.clock.now_s()
    return Call(
        "PATCH", resource, stored.namespace, stored.name, subresource, {}, _AGENT, b"", now_s, times.spell(now_s)
    )


def update(core: Core, resource: Resource, stored: Stored, change: writing.Change, subresource: str = "") -> None:
    """Change an object, and note who did."""
    call = make_call(core, resource, stored, subresource)

    def tracked(live: dict[str, object]) -> dict[str, object]:
        new = change(live)
        writing.track_update(call, new, stored.decode())
        return new

    writing.update(core, call, stored, tracked)


def delete(core: Core, resource: Resource, stored: Stored, options: deleting.Options) -> None:
    call = replace(make_call(core, resource, stored), method="DELETE")
    deleting.delete_stored(core, call, stored, options)
