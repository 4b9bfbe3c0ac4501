"""MachineSets of both APIs, each followed as soon as it may be looked at and the server has it.

Nothing of Cluster API is asked for before its gate is on, nor after it went off. An API that the server lacks is looked
for again and again: its definitions may come later.
"""

import logging
from collections.abc import Callable, Iterable

from windlass.controllers import controller, following
from windlass.controllers.openshift import apis, authority, gates
from windlass.kube import discovery, errors, prepare
from windlass.kube.resources import Resource, Unstructured

_LOOK_S = 1.0
_ASK_S = 15.0
_log = logging.getLogger(__name__)

Keys = Callable[[Unstructured], Iterable[str]]


def see(machine_set: Unstructured) -> object:
    """What of a MachineSet matters: replicas, and how they fare, change all the time, and do not."""
    metadata, spec = machine_set.get("metadata") or {}, machine_set.get("spec") or {}
    status = machine_set.get("status") or {}
    held = (spec.get("authoritativeAPI"), status.get("authoritativeAPI"))
    return metadata.get("uid"), metadata.get("annotations"), metadata.get("deletionTimestamp"), held


class MachineSets:
    """What is known of MachineSets, and of what may be known."""

    def __init__(
        self,
        site: controller.Site,
        follow: following.Following,
        keys: Keys,
        wake_all: Callable[[], None],
        version: str = "",
    ) -> None:
        """`keys` says whom a MachineSet concerns; gates are those of an OpenShift `version`."""
        self._api, self._follow, self._keys, self._wake_all, self._version = site.api, follow, keys, wake_all, version
        self._gates = follow.follow(site.api, gates.FEATURE_GATES, self._wake)
        self._infrastructures = follow.follow(site.api, gates.INFRASTRUCTURES, self._wake)
        self._followed: dict[apis.Api, following.Followed[Unstructured]] = {}
        self._absent: dict[apis.Api, float] = {}
        """APIs that the server lacks, and when it said so."""
        follow.spawn(self._keep_following())

    @property
    def gates(self) -> gates.Gates:
        found = (self._gates.store.get(gates.SINGLETON), self._infrastructures.store.get(gates.SINGLETON))
        return gates.read(*found, self._version)

    @property
    def wanted(self) -> tuple[apis.Api, ...]:
        """The APIs that may be looked at."""
        return apis.BOTH if self.gates.has_cluster_api else (apis.MACHINE_API,)

    @property
    def supported(self) -> frozenset[apis.Api] | None:
        """Those of them that the server has; None while that is not known, or what they hold is not."""
        followed = frozenset(api for api in self.wanted if self._is_known(api))
        return followed if all(api in followed or api in self._absent for api in self.wanted) else None

    @property
    def complaint(self) -> str:
        """Why what is known may be out of date; empty if it is not."""
        return "; ".join(complaint for each in self._followed.values() if (complaint := each.complaint))

    def pair(self, name: str) -> authority.Pair:
        """The MachineSets of a name, as far as they may be looked at."""
        return authority.Pair(name, *(self._get(api, name) if api in self.wanted else None for api in apis.BOTH))

    def spoken(self, api: apis.Api) -> Resource[Unstructured]:
        """Its MachineSets, in the version that the server has."""
        followed = self._followed.get(api)
        return api.machine_sets() if followed is None else followed.informer.resource

    def _get(self, api: apis.Api, name: str) -> Unstructured | None:
        followed = self._followed.get(api)
        return None if followed is None else followed.store.get(f"{api.namespace}/{name}")

    def _is_known(self, api: apis.Api) -> bool:
        return api in self._followed and self._followed[api].informer.synced

    def _wake(self, _: Unstructured) -> list[str]:
        self._wake_all()
        return []

    async def _keep_following(self) -> None:
        for followed in (self._gates, self._infrastructures):
            await followed.informer.wait_synced()
        while True:
            for api in apis.BOTH:
                await self._keep(api)
            await self._api.clock.sleep(_LOOK_S)

    async def _keep(self, api: apis.Api) -> None:
        if api not in self.wanted:
            self._absent.pop(api, None)
            if api in self._followed:
                self._followed.pop(api).stop()
            return
        now_s = self._api.clock.monotonic_s()
        if api in self._followed or now_s < self._absent.get(api, now_s - _ASK_S) + _ASK_S:
            return
        try:
            found = await self._find(api)
        except errors.KubeError as error:
            _log.warning("%s: %s", api.group, error)
            return
        if found is None:
            if api not in self._absent:
                self._wake_all()
            self._absent[api] = now_s
            return
        self._absent.pop(api, None)
        within = prepare.Selection(api.namespace)
        followed = self._follow.follow(self._api, found, self._keys, within, sees=see, required=False)
        self._followed[api] = followed
        self._follow.spawn(self._wake_when_known(followed))

    async def _find(self, api: apis.Api) -> Resource[Unstructured] | None:
        for version in api.versions:
            found = await discovery.find(self._api, f"{api.group}/{version}", "MachineSet")
            if found is not None:
                return found
        return None

    async def _wake_when_known(self, followed: following.Followed[Unstructured]) -> None:
        await followed.informer.wait_synced()
        self._wake_all()
