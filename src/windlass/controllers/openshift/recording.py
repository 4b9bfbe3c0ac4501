"""Recording: what is told of an object is an event, and a line of the log. Administrators look at either."""

import logging

from windlass.controllers.telling import Event
from windlass.kube import events

_LEVELS = {events.WARNING: logging.WARNING, events.NORMAL: logging.INFO}
_log = logging.getLogger(__name__)


def record(recorder: events.Recorder, about: events.About, event: Event) -> None:
    recorder.record(about, event.type, event.reason, event.message, action=event.action)
    named = f"{about.namespace}/{about.name}"
    _log.log(_LEVELS[event.type], "%s %s: %s: %s", about.kind, named, event.reason, event.message)
