"""Templates: kinds of infrastructure that MachineSets refer to, followed from the moment that one does."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from windlass import clock
from windlass.controllers import controller, following
from windlass.controllers.openshift import apis
from windlass.controllers.openshift.machineset_sync import facts, names
from windlass.controllers.openshift.machineset_sync.conversion import infrastructure
from windlass.kube import client, discovery, prepare
from windlass.kube.resources import Resource, Unstructured

Json = Mapping[str, Any]

_KNOWN_WITHIN_S = 10.0


class Templates:
    """What there is of each kind. `concerned` tells the keys that a change wakes."""

    def __init__(
        self,
        api: client.Client,
        followed: following.Following,
        concerned: Callable[[Json], Iterable[str]],
    ) -> None:
        self._api, self._following, self._concerned = api, followed, concerned
        self._kinds: dict[tuple[str, str], following.Followed[Unstructured]] = {}

    async def find(self, group: str, kind: str, name: str) -> infrastructure.Template | None:
        """The template of a name; None if there is none, or if the server has no such kind."""
        followed = await self._follow(group, kind)
        there = None if followed is None else followed.store.get(f"{apis.CLUSTER_API.namespace}/{name}")
        return None if there is None else _read(there)

    def list_made(self, machine_set: str) -> list[infrastructure.Template]:
        """Those that were made for a set, of every kind that anyone has referred to."""
        return [_read(each) for followed in self._kinds.values() for each in followed.store.find("set", machine_set)]

    def knows(self, group: str, kind: str) -> bool:
        """Is a kind followed? One that the server lacks is not: nobody is told when it comes."""
        return (group, kind) in self._kinds

    async def resource(self, api_version: str, kind: str) -> Resource[Unstructured]:
        """Where a template of a kind is written."""
        followed = await self._follow(api_version.partition("/")[0], kind)
        if followed is None:
            raise controller.NotYet(f"the server has no {kind} in {api_version}")
        return followed.informer.resource

    async def _follow(self, group: str, kind: str) -> following.Followed[Unstructured] | None:
        if (group, kind) not in self._kinds:
            resource = await self._discover(group, kind)
            if resource is None:
                return None
            if (group, kind) not in self._kinds:
                within = prepare.Selection(apis.CLUSTER_API.namespace)
                self._kinds[group, kind] = self._following.follow(
                    self._api, resource, self._concerned, within, {"set": _made_for}, required=False
                )
        followed = self._kinds[group, kind]
        if not followed.informer.synced:
            try:
                await clock.within(self._api.clock, _KNOWN_WITHIN_S, followed.informer.wait_synced())
            except TimeoutError:
                raise controller.NotYet(followed.complaint) from None
        return followed

    async def _discover(self, group: str, kind: str) -> Resource[Unstructured] | None:
        for version in await discovery.list_versions(self._api, group):
            if (found := await discovery.find(self._api, version, kind)) is not None:
                return found
        return None


def _read(body: Json) -> infrastructure.Template:
    return infrastructure.Template(
        body.get("apiVersion") or "",
        body.get("kind") or "",
        facts.metadata(body).get("name") or "",
        facts.labels(body),
        facts.is_leaving(body),
        facts.spec(body),
    )


def _made_for(body: Json) -> list[str]:
    label = facts.labels(body).get(names.SET_LABEL)
    return [label] if label else []
