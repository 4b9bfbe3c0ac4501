"""Infrastructure templates: kinds that are not known before a group refers to them.

The first group that refers to a kind has it looked up and followed, once; later ones find it. A kind that the server
does not have, or that may not be read, says so and keeps nobody waiting.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from windlass.kube import client, discovery
from windlass.kube import errors as kube_errors
from windlass.kube.models import clusterapi
from windlass.kube.resources import Resource
from windlass.providers.clusterapi import following

_LOOK_AGAIN_S = 30.0
_LOOK_S = 0.05

_log = logging.getLogger(__name__)

Template = clusterapi.InfrastructureTemplate


@dataclass(frozen=True, slots=True)
class TemplateKind:
    """A kind as references name it: with the group alone (v1beta2), or with its version, too (v1beta1)."""

    api: str
    kind: str

    @property
    def has_version(self) -> bool:
        return "/" in self.api


def refer(reference: clusterapi.Reference | None) -> TemplateKind | None:
    """The kind that a reference names; None if it names none."""
    if reference is None or not reference.kind:
        return None
    api = reference.api_group if reference.api_group is not None else reference.api_version
    return TemplateKind(api, reference.kind) if api else None


class Infrastructure:
    """Templates of all kinds that anyone referred to."""

    def __init__(self, api: client.Client, namespaces: tuple[str, ...], on_change: Callable[[], None]) -> None:
        self._api = api
        self._namespaces = namespaces
        self._on_change = on_change
        self._followed: dict[TemplateKind, following.Following[Template] | None] = {}
        """None while the kind is being looked up."""
        self._missing: dict[TemplateKind, str] = {}
        self._asked: asyncio.Queue[TemplateKind] = asyncio.Queue()

    def ask_for(self, kind: TemplateKind) -> None:
        """Have it followed, if it is not yet."""
        if kind not in self._followed:
            self._followed[kind] = None
            self._asked.put_nowait(kind)

    def get(self, kind: TemplateKind, namespace: str, name: str) -> Template | None:
        followed = self._followed.get(kind)
        return None if followed is None else followed.get(namespace, name)

    def explain(self, kind: TemplateKind, namespace: str, name: str) -> str:
        """Why a template is not there."""
        followed = self._followed.get(kind)
        if followed is None:
            return self._missing.get(kind, "not read yet")
        for complaint in followed.malformed:
            if complaint.name == f"{namespace}/{name}":
                return str(complaint)
        if not followed.synced:
            return str(followed.trouble or "not read yet")
        return "no such object"

    @property
    def trouble(self) -> dict[str, str]:
        """Kinds that cannot be read, and why."""
        found = {kind.kind: why for kind, why in self._missing.items()}
        for kind, followed in self._followed.items():
            if followed is not None and followed.trouble is not None:
                found[kind.kind] = str(followed.trouble)
        return found

    async def wait_settled(self) -> None:
        """Until every kind asked for was read, or cannot be."""
        while not all(self._is_settled(kind) for kind in list(self._followed)):
            await self._api.clock.sleep(_LOOK_S)

    def _is_settled(self, kind: TemplateKind) -> bool:
        followed = self._followed[kind]
        return kind in self._missing if followed is None else followed.settled

    async def run(self) -> None:
        """Look up and follow whatever is asked for, until cancelled."""
        async with asyncio.TaskGroup() as together:
            while True:
                together.create_task(self._follow(await self._asked.get()))

    async def _follow(self, kind: TemplateKind) -> None:
        resource = await self._look_up(kind)
        handler = following.Notify[Template](lambda _: self._on_change())
        followed = following.Following(self._api, resource, self._namespaces, handler)
        self._followed[kind] = followed
        await followed.run()

    async def _look_up(self, kind: TemplateKind) -> Resource[Template]:
        while True:
            try:
                found = await self._find(kind)
            except kube_errors.KubeError as error:
                self._complain(kind, str(error))
            else:
                if found is not None:
                    self._missing.pop(kind, None)
                    return found
                self._complain(kind, f"the server has no kind {kind.kind} in {kind.api}")
            await self._api.clock.sleep(_LOOK_AGAIN_S)

    async def _find(self, kind: TemplateKind) -> Resource[Template] | None:
        """In the version named, or in the first that has it."""
        versions = [kind.api] if kind.has_version else await discovery.list_versions(self._api, kind.api)
        for version in versions:
            found = await discovery.find(self._api, version, kind.kind)
            if found is not None:
                return found.read_as(Template)
        return None

    def _complain(self, kind: TemplateKind, why: str) -> None:
        if self._missing.get(kind) != why:
            _log.warning("%s: %s", kind.kind, why)
            self._missing[kind] = why
            self._on_change()
