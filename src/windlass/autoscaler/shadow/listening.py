"""Listening: the other autoscaler's events, for its reasons.

They are told, never compared: events come late, are merged, and may be missing altogether where the right to read them
is. The comparison goes by sizes and marks.
"""

from typing import Protocol

from windlass.autoscaler.shadow.deeds import Said
from windlass.kube import client, informers, prepare, resources
from windlass.kube.models import events, meta

COMPONENT = "cluster-autoscaler"
_THEIRS = prepare.Selection(fields=f"source={COMPONENT}")


class Listener(Protocol):
    """Who wants to hear."""

    def hear(self, said: Said) -> None:
        """An event of the other's, perhaps again."""


async def listen(api: client.Client, to: Listener) -> None:
    """Hand on every event of the other's, until cancelled. Without the right to read them nothing is heard."""
    await informers.Informer(api, resources.EVENTS, _Ear(to), _THEIRS).run()


class _Ear:
    """A sink that keeps nothing."""

    def __init__(self, to: Listener) -> None:
        self._to = to

    def begin(self) -> None:
        pass

    def put(self, metadata: meta.ObjectMeta, found: events.Event) -> None:
        component = found.source.component if found.source is not None else None
        about = found.involved_object
        if about is None or not about.name or COMPONENT not in (component, found.reporting_component):
            return
        name = f"{about.namespace or metadata.namespace}/{about.name}" if about.kind == "Pod" else about.name
        self._to.hear(Said(name, found.reason or "", found.message or ""))

    def set_aside(self, found: resources.Unreadable[events.Event]) -> None:
        pass

    def remove(self, metadata: meta.ObjectMeta) -> None:
        pass

    def end(self) -> None:
        pass
