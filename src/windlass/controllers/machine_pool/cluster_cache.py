"""Cluster cache: connections to workload clusters, and their Nodes.

The kubeconfig of a cluster is the key `value` of the Secret `<cluster>-kubeconfig`. It is read when the cluster is
first needed, when the Secret changes, and periodically while the connection fails.

    connecting ──▶ connected ◀──▶ unreachable      a cluster that does not respond for a while is unreachable,
        └──────────────────────────────▲            and its cached Nodes are no longer used
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

from windlass import clock, errors, klog
from windlass.controllers.machine_pool import api_types, conversion, model
from windlass.controllers.machine_pool.model import MachinePoolSettings
from windlass.kube import client, informers, request_builders, rest_config, store, transport
from windlass.kube import errors as kube_errors
from windlass.kube.resources import SECRETS

_MONITOR_INTERVAL_S = 1.0
"""Interval of connection checks."""
_KUBECONFIG_RETRY_S = 10.0
"""Retry interval of an unusable kubeconfig."""
_UNEXPECTED_ERROR = "an unexpected error, see the operator's log"
_HTTP_PHRASES = {status.value: status.phrase for status in http.HTTPStatus}
_log = logging.getLogger(__name__)
_PROBE_TIMEOUT_S = 5.0
"""Timeout of a probe of an unresponsive cluster."""


class Dialer(Protocol):
    """Connects to a workload cluster with a REST config."""

    def __call__(self, config: rest_config.RestConfig) -> AbstractAsyncContextManager[transport.Transport]: ...


def dial(config: rest_config.RestConfig) -> AbstractAsyncContextManager[transport.Transport]:
    """Connect over the network."""
    return config.connect()


def fence_dialer(reach: Dialer, fence: Callable[[transport.Transport], transport.Transport]) -> Dialer:
    """A dialer whose transports reject writes while this process is not the leader."""

    @contextlib.asynccontextmanager
    async def reach_fenced(config: rest_config.RestConfig) -> AsyncIterator[transport.Transport]:
        async with reach(config) as carrier:
            yield fence(carrier)

    return reach_fenced


@dataclass(frozen=True, slots=True)
class ConnectedCluster:
    """A connected cluster: client and Node store."""

    client: client.Client
    nodes: store.Store[api_types.Node]


ConnectionState = ConnectedCluster | model.UnreachableCluster | None
"""State of a connection; None while it is being made."""


class ClusterAccessor:
    """Connection to one workload cluster. `run` maintains it; `connection_state` returns its state."""

    def __init__(
        self, api: client.Client, key: str, reach: Dialer, wake: "ClusterEventHandler", settings: MachinePoolSettings
    ) -> None:
        self.key = key
        self._api = api
        self._namespace, _, self._name = key.partition("/")
        self._dial = reach
        self._handler = wake
        self._grace_s = settings.grace_s
        self._allows_insecure = settings.allow_insecure_kubeconfigs
        self._state: ConnectionState = None
        self._refresh_requested = asyncio.Event()

    def connection_state(self) -> ConnectionState:
        return self._state

    def refresh(self) -> None:
        """Read the kubeconfig again: its Secret may have changed."""
        self._refresh_requested.set()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self._refresh_requested.clear()
            try:
                version, config = await self._read()
                await self._watch_nodes(version, config)
                continue
            except kube_errors.NotFound:
                self._set(model.UnreachableCluster("KubeconfigMissing", f"Secret {self._secret} not found"))
            except kube_errors.KubeError as error:
                self._set(
                    model.UnreachableCluster("KubeconfigUnreadable", f"Secret {self._secret}: {_describe_error(error)}")
                )
            except errors.InvalidInput as error:
                self._set(model.UnreachableCluster("KubeconfigInvalid", f"Secret {self._secret}: {error}"))
            except Exception as error:
                klog.report_error(klog.ErrorPlace.WORKLOAD_CLUSTER, f"Secret {self._secret}", "", error)
                self._set(
                    model.UnreachableCluster(
                        "WorkloadClusterUnreachable", f"workload cluster {self.key}: {_UNEXPECTED_ERROR}"
                    )
                )
            await self._pause(_KUBECONFIG_RETRY_S)

    @property
    def _secret(self) -> str:
        return f"{self._namespace}/{self._name}-kubeconfig"

    async def _read(self) -> tuple[str, rest_config.RestConfig]:
        secret = await self._api.get(SECRETS, f"{self._name}-kubeconfig", self._namespace)
        text = (secret.data or {}).get("value")
        if not text:
            raise errors.InvalidInput("no key `value`")
        name = f"of Cluster {self.key}"
        config = rest_config.read_secret_kubeconfig(self._api.clock, text, name, allow_insecure=self._allows_insecure)
        return secret.meta.resource_version or "", config

    async def _watch_nodes(self, version: str, config: rest_config.RestConfig) -> None:
        """Watch Nodes until the kubeconfig changes."""
        async with self._dial(config) as carrier:
            api = client.Client(carrier, self._api.clock, self._api.settings, self._api.rng)
            handler = _NodeEventHandler(self.key, self._handler)
            nodes = store.Store[api_types.Node]({"provider_id": _node_provider_ids}, [handler])
            informer = informers.Informer(api, api_types.WORKLOAD_NODES, nodes)
            following = asyncio.ensure_future(informer.run())
            try:
                await self._monitor(informer, ConnectedCluster(api, nodes), version)
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
                if isinstance(self._state, ConnectedCluster):
                    self._state = None

    async def _monitor(
        self, informer: informers.Informer[api_types.Node], connected: ConnectedCluster, version: str
    ) -> None:
        """Update the connection state until the cluster has to be connected again."""
        well_s = looked_s = self._api.clock.monotonic_s()
        while True:
            now_s = self._api.clock.monotonic_s()
            is_well = informer.synced and informer.last_error is None
            if is_well:
                well_s = now_s
                self._set(connected)
            is_overdue = not is_well and now_s - max(well_s, looked_s) > self._grace_s
            if self._refresh_requested.is_set() or is_overdue:
                self._refresh_requested.clear()
                looked_s = now_s
                # A recovered watch reports success only with its next event; a successful probe tells at once.
                if await self._has_changed(version) or (is_overdue and await self._is_responding(connected.client)):
                    return
            if not is_well and now_s - well_s > self._grace_s:
                reason = _describe_error(informer.last_error) if informer.last_error else "no answer"
                self._set(
                    model.UnreachableCluster("WorkloadClusterUnreachable", f"workload cluster {self.key}: {reason}")
                )
            if not informer.synced:
                with contextlib.suppress(TimeoutError):
                    await clock.run_with_timeout(self._api.clock, _MONITOR_INTERVAL_S, informer.wait_synced())
            else:
                await self._pause(_MONITOR_INTERVAL_S)

    async def _has_changed(self, version: str) -> bool:
        try:
            secret = await self._api.get(SECRETS.untyped(), f"{self._name}-kubeconfig", self._namespace)
        except kube_errors.NotFound:
            return True
        except kube_errors.KubeError:
            return False
        return bool(secret["metadata"].get("resourceVersion") != version)

    async def _is_responding(self, api: client.Client) -> bool:
        request = dataclasses.replace(
            request_builders.build_list(api_types.WORKLOAD_NODES, limit=1), timeout_s=_PROBE_TIMEOUT_S
        )
        try:
            await api.exchange(request)
        except kube_errors.KubeError:
            return False
        return True

    def _set(self, state: ConnectionState) -> None:
        if state != self._state:
            self._state = state
            self._handler.enqueue_cluster(self.key)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await clock.run_with_timeout(self._api.clock, seconds, self._refresh_requested.wait())


class ClusterEventHandler(Protocol):
    """Handler of changes in workload clusters."""

    def enqueue_cluster(self, key: str) -> None:
        """Enqueue all pools of a cluster."""

    def enqueue_node(self, key: str, node: api_types.Node) -> None:
        """Enqueue the pools of an added, changed or deleted Node."""


class ClusterCache:
    """Connections to all workload clusters that are in use."""

    def __init__(
        self,
        api: client.Client,
        reach: Dialer,
        wake: ClusterEventHandler,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None] | None],
        settings: MachinePoolSettings,
    ) -> None:
        self._api = api
        self._dial = reach
        self._handler = wake
        self._spawn = spawn
        self._settings = settings
        self._running: dict[str, tuple[ClusterAccessor, asyncio.Task[None] | None]] = {}

    def connection_state(self, key: str) -> ConnectionState:
        """The state of a cluster's connection. The first call connects to the cluster."""
        if key not in self._running:
            workload = ClusterAccessor(self._api, key, self._dial, self._handler, self._settings)
            self._running[key] = (workload, self._spawn(workload.run()))
        return self._running[key][0].connection_state()

    def refresh(self, key: str) -> None:
        """Read the kubeconfig of a cluster again."""
        if key in self._running:
            self._running[key][0].refresh()

    def retain(self, keys: Iterable[str]) -> None:
        """Disconnect from all other clusters."""
        for key in set(self._running) - set(keys):
            _, task = self._running.pop(key)
            if task is not None:
                task.cancel()


class _NodeEventHandler:
    """Event handler of the Node store. Updates without relevant changes, such as heartbeats, are dropped."""

    def __init__(self, key: str, wake: ClusterEventHandler) -> None:
        self._key = key
        self._handler = wake

    def added(self, node: api_types.Node) -> None:
        self._handler.enqueue_node(self._key, node)

    def modified(self, before: api_types.Node, node: api_types.Node) -> None:
        if _relevant_fields(before) != _relevant_fields(node):
            self._handler.enqueue_node(self._key, before)
            self._handler.enqueue_node(self._key, node)

    def deleted(self, before: api_types.Node) -> None:
        self._handler.enqueue_node(self._key, before)


def _relevant_fields(found: api_types.Node) -> model.Node:
    node = conversion.parse_node(found)
    return model.Node(
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


def _describe_error(error: kube_errors.KubeError) -> str:
    """Describe a connection error without text from the remote side.

    A reader of the pool's status may lack permission to see the response, and the author of the Secret chooses the
    remote address. The name of the API call is left out too, since it varies from one failure to the next.
    """
    _log.debug("failed to connect to workload cluster: error=%.500s", error)
    match error:
        case kube_errors.ConnectFailed(_, reason) | kube_errors.CallTimedOut(_, reason):
            return reason
        case kube_errors.ConnectionLost():
            return "the connection was lost"
        case kube_errors.InvalidResponse():
            return "the answer is not that of an API server"
        case kube_errors.ApiError():
            return f"{error.code} {_HTTP_PHRASES.get(error.code, 'refused')}"
        case kube_errors.CredentialsFailed():
            return "the credentials cannot be read"
    return "it cannot be used"


def _node_provider_ids(node: api_types.Node) -> list[str]:
    return [node.spec.provider_id] if node.spec and node.spec.provider_id else []
