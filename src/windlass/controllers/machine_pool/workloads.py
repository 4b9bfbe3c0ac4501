"""Workload clusters: how each is reached, and which Nodes it has.

The kubeconfig of a cluster is the key `value` of the Secret `<cluster>-kubeconfig`. It is read when the cluster is
first needed, when the Secret changes, and from time to time while it does not serve.

    connecting ──▶ known ◀──▶ unreachable          a cluster that does not answer for a while is unreachable, and
        └───────────────────────────▲               what was known of its Nodes is no longer the truth
"""

import asyncio
import contextlib
import dataclasses
import http
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from windlass import clock, errors, unexpected
from windlass.controllers.machine_pool import facts, models, observe
from windlass.controllers.machine_pool.settings import Settings
from windlass.kube import access, client, informers, prepare, secret_kubeconfigs, store, transport
from windlass.kube import errors as kube_errors
from windlass.kube.resources import SECRETS

_LOOK_S = 1.0
"""How often the state of a connection is looked at."""
_RETRY_S = 10.0
"""How often a kubeconfig that does not serve is read again."""
_UNEXPECTED = "an unexpected error, see the operator's log"
_PHRASES = {status.value: status.phrase for status in http.HTTPStatus}
_log = logging.getLogger(__name__)
_PROBE_S = 5.0
"""Time for a cluster that seems to be down to prove that it is not."""


class Dial(Protocol):
    """How a cluster is reached, once it is known where it is."""

    def __call__(self, found: access.Access) -> AbstractAsyncContextManager[transport.Transport]: ...


def dial(found: access.Access) -> AbstractAsyncContextManager[transport.Transport]:
    """Over the network."""
    return found.connect()


def fenced(reach: Dial, fence: Callable[[transport.Transport], transport.Transport]) -> Dial:
    """Reach clusters as before, with a fence around each."""

    @contextlib.asynccontextmanager
    async def reach_fenced(found: access.Access) -> AsyncIterator[transport.Transport]:
        async with reach(found) as carrier:
            yield fence(carrier)

    return reach_fenced


@dataclass(frozen=True, slots=True)
class Connected:
    """A cluster whose Nodes are known."""

    client: client.Client
    nodes: store.Store[models.Node]


Look = Connected | facts.Unreachable | None
"""None: not known yet."""


class Workload:
    """One workload cluster. `run` keeps it connected; `look` says how it is at the moment."""

    def __init__(self, api: client.Client, key: str, reach: Dial, wake: "Wake", settings: Settings) -> None:
        self.key = key
        self._api = api
        self._namespace, _, self._name = key.partition("/")
        self._dial = reach
        self._wake = wake
        self._grace_s = settings.grace_s
        self._allows_insecure = settings.allow_insecure_kubeconfigs
        self._state: Look = None
        self._poked = asyncio.Event()

    def look(self) -> Look:
        return self._state

    def poke(self) -> None:
        """The Secret may have changed."""
        self._poked.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._poked.clear()
            try:
                version, found = await self._read()
                await self._follow(version, found)
                continue
            except kube_errors.NotFound:
                self._set(facts.Unreachable("KubeconfigMissing", f"Secret {self._secret} not found"))
            except kube_errors.KubeError as error:
                self._set(facts.Unreachable("KubeconfigUnreadable", f"Secret {self._secret}: {_explain(error)}"))
            except errors.InvalidInput as error:
                self._set(facts.Unreachable("KubeconfigInvalid", f"Secret {self._secret}: {error}"))
            except Exception as error:
                unexpected.report(unexpected.Place.WORKLOAD_CLUSTER, f"Secret {self._secret}", "", error)
                self._set(
                    facts.Unreachable("WorkloadClusterUnreachable", f"workload cluster {self.key}: {_UNEXPECTED}")
                )
            await self._pause(_RETRY_S)

    @property
    def _secret(self) -> str:
        return f"{self._namespace}/{self._name}-kubeconfig"

    async def _read(self) -> tuple[str, access.Access]:
        secret = await self._api.get(SECRETS, f"{self._name}-kubeconfig", self._namespace)
        text = (secret.data or {}).get("value")
        if not text:
            raise errors.InvalidInput("no key `value`")
        name = f"of Cluster {self.key}"
        found = secret_kubeconfigs.read(self._api.clock, text, name, allow_insecure=self._allows_insecure)
        return secret.meta.resource_version or "", found

    async def _follow(self, version: str, found: access.Access) -> None:
        """Follow the Nodes until another kubeconfig is to be used."""
        async with self._dial(found) as carrier:
            api = client.Client(carrier, self._api.clock, self._api.settings, self._api.rng)
            handler = _Waker(self.key, self._wake)
            nodes = store.Store[models.Node]({"provider_id": _provider_ids}, [handler])
            informer = informers.Informer(api, models.WORKLOAD_NODES, nodes)
            following = asyncio.ensure_future(informer.run())
            try:
                await self._watch_over(informer, Connected(api, nodes), version)
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
                if isinstance(self._state, Connected):
                    self._state = None

    async def _watch_over(self, informer: informers.Informer[models.Node], connected: Connected, version: str) -> None:
        """Say how the cluster is, until it is to be connected to anew."""
        well_s = looked_s = self._api.clock.monotonic_s()
        while True:
            now_s = self._api.clock.monotonic_s()
            is_well = informer.synced and informer.trouble is None
            if is_well:
                well_s = now_s
                self._set(connected)
            is_overdue = not is_well and now_s - max(well_s, looked_s) > self._grace_s
            if self._poked.is_set() or is_overdue:
                self._poked.clear()
                looked_s = now_s
                # A watch that came back says so only with its next event: who asks knows at once.
                if await self._has_changed(version) or (is_overdue and await self._answers(connected.client)):
                    return
            if not is_well and now_s - well_s > self._grace_s:
                why = _explain(informer.trouble) if informer.trouble else "no answer"
                self._set(facts.Unreachable("WorkloadClusterUnreachable", f"workload cluster {self.key}: {why}"))
            if not informer.synced:
                with contextlib.suppress(TimeoutError):
                    await clock.within(self._api.clock, _LOOK_S, informer.wait_synced())
            else:
                await self._pause(_LOOK_S)

    async def _has_changed(self, version: str) -> bool:
        try:
            secret = await self._api.get(SECRETS.untyped(), f"{self._name}-kubeconfig", self._namespace)
        except kube_errors.NotFound:
            return True
        except kube_errors.KubeError:
            return False
        return bool(secret["metadata"].get("resourceVersion") != version)

    async def _answers(self, api: client.Client) -> bool:
        request = dataclasses.replace(prepare.list_page(models.WORKLOAD_NODES, limit=1), timeout_s=_PROBE_S)
        try:
            await api.exchange(request)
        except kube_errors.KubeError:
            return False
        return True

    def _set(self, state: Look) -> None:
        if state != self._state:
            self._state = state
            self._wake.wake_cluster(self.key)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await clock.within(self._api.clock, seconds, self._poked.wait())


class Wake(Protocol):
    """Who wants to know of changes in workload clusters."""

    def wake_cluster(self, key: str) -> None:
        """Something changed for all pools of a cluster."""

    def wake_node(self, key: str, node: models.Node) -> None:
        """A Node of a cluster came, changed or went."""


class Workloads:
    """All workload clusters that are in use."""

    def __init__(
        self,
        api: client.Client,
        reach: Dial,
        wake: Wake,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None] | None],
        settings: Settings,
    ) -> None:
        self._api = api
        self._dial = reach
        self._wake = wake
        self._spawn = spawn
        self._settings = settings
        self._running: dict[str, tuple[Workload, asyncio.Task[None] | None]] = {}

    def look(self, key: str) -> Look:
        """How a cluster is; one that nobody asked for before is connected to from now on."""
        if key not in self._running:
            workload = Workload(self._api, key, self._dial, self._wake, self._settings)
            self._running[key] = (workload, self._spawn(workload.run()))
        return self._running[key][0].look()

    def poke(self, key: str) -> None:
        """The kubeconfig of a cluster may have changed."""
        if key in self._running:
            self._running[key][0].poke()

    def keep_only(self, keys: Iterable[str]) -> None:
        """Let go of every other cluster."""
        for key in set(self._running) - set(keys):
            _, task = self._running.pop(key)
            if task is not None:
                task.cancel()


class _Waker:
    """Tells of Nodes, but not of what no pool looks at: heartbeats come by the thousand."""

    def __init__(self, key: str, wake: Wake) -> None:
        self._key = key
        self._wake = wake

    def added(self, found: models.Node) -> None:
        self._wake.wake_node(self._key, found)

    def modified(self, before: models.Node, found: models.Node) -> None:
        if _essence(before) != _essence(found):
            self._wake.wake_node(self._key, before)
            self._wake.wake_node(self._key, found)

    def deleted(self, before: models.Node) -> None:
        self._wake.wake_node(self._key, before)


def _essence(found: models.Node) -> facts.Node:
    node = observe.read_node(found)
    return facts.Node(
        node.name,
        node.uid,
        "",
        node.provider_id,
        node.is_ready,
        node.ready_since_s,
        node.is_deleting,
        node.kubelet_version,
        node.annotations,
        node.taints,
    )


def _explain(error: kube_errors.KubeError) -> str:
    """Why a cluster is not reached, in words of ours and the system's alone.

    Whoever reads a pool's status may not be who may read what the other side answered, and whoever wrote the Secret
    chose that other side. Nor does the call belong here, which is another each time.
    """
    _log.debug("workload cluster: %.500s", error)
    match error:
        case kube_errors.ConnectFailed(_, why) | kube_errors.CallTimedOut(_, why):
            return why
        case kube_errors.ConnectionLost():
            return "the connection was lost"
        case kube_errors.InvalidAnswer():
            return "the answer is not that of an API server"
        case kube_errors.ApiError():
            return f"{error.code} {_PHRASES.get(error.code, 'refused')}"
        case kube_errors.CredentialsFailed():
            return "the credentials cannot be read"
    return "it cannot be used"


def _provider_ids(found: models.Node) -> list[str]:
    return [found.spec.provider_id] if found.spec and found.spec.provider_id else []
