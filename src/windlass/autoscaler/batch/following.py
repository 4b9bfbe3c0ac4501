"""Following ProvisioningRequests and the PodTemplates that they name.

What was written of a request is believed before the server tells of it: a loop that began in between would give the
same room away twice. That is so for as long as the request is seen at the very version that was written over.
"""

from collections.abc import Callable, Iterator
from typing import Any

from windlass.autoscaler.batch import reading
from windlass.autoscaler.observe import gate, sinks
from windlass.engine import plan
from windlass.engine.provisioning.request import Request
from windlass.kube import client, informers, reflector, resources
from windlass.kube.models import autoscaling, templates

Heard = Callable[[reflector.Sink[Any], str], reflector.Sink[Any]]
"""A sink, and someone who wants to know when it is given something of a kind."""


class Requests:
    """All of them, as they are now."""

    def __init__(self) -> None:
        self._requests: sinks.Kept[Request] = sinks.Kept()
        self._templates: sinks.Kept[templates.PodTemplate] = sinks.Kept()
        self._written: dict[str, tuple[str, Request]] = {}
        self._informers: tuple[informers.Informer[Any], ...] = ()
        self._made: dict[str, tuple[Request, tuple[object, ...], Request]] = {}
        self._last: tuple[Request, ...] = ()

    def follow(self, api: client.Client, behind: gate.Gate, heard: Heard) -> Iterator[informers.Informer[Any]]:
        requests = sinks.plain_sink(self._requests, reading.read, behind)
        pod_templates = sinks.plain_sink(self._templates, _keep, behind)
        self._informers = (
            informers.Informer(api, resources.POD_TEMPLATES, heard(pod_templates, "PodTemplate")),
            informers.Informer(api, resources.PROVISIONING_REQUESTS, heard(requests, reading.KIND)),
        )
        yield from self._informers

    def observe(self) -> tuple[Request, ...]:
        """The requests with their pods; none before all are known: a template that is not seen is not missing.

        The same object while nothing in it changes.
        """
        if not all(one.synced for one in self._informers):
            return ()
        known = {one.meta.key: one for one in self._templates.all}
        found = tuple(self._make(self._believe(one), known) for one in self._requests.all)
        self._made = {one.key: self._made[one.key] for one in found}
        self._written = {key: each for key, each in self._written.items() if key in self._made}
        if len(found) != len(self._last) or any(one is not other for one, other in zip(found, self._last, strict=True)):
            self._last = found
        return self._last

    def note_written(self, order: plan.SetConditions, found: autoscaling.ProvisioningRequest) -> None:
        """Conditions were written; this is what the server made of it."""
        request = reading.read(found)
        self._written[request.key] = order.version, request

    def _believe(self, seen: Request) -> Request:
        before, written = self._written.get(seen.key, ("", seen))
        if seen.version == before and seen.uid == written.uid:
            return written
        self._written.pop(seen.key, None)
        return seen

    def _make(self, request: Request, known: dict[str, templates.PodTemplate]) -> Request:
        """The request with its pods, made again only if it or one of its templates changed."""
        named = tuple(known.get(f"{request.namespace}/{one.template}") for one in request.pod_sets)
        asked, used, made = self._made.get(request.key, (None, (), request))
        if asked is request and len(used) == len(named) and all(a is b for a, b in zip(used, named, strict=True)):
            return made
        made = reading.make_pods(request, known)
        self._made[request.key] = request, named, made
        return made


def _keep(found: templates.PodTemplate) -> templates.PodTemplate:
    return found
