"""The leader of the cluster of a kubeconfig, and its API through the proxy of the API server.

The Lease of --leader-elect-resource-name names the pod; the proxy (`pods/proxy`) reaches it without a port-forward. The
leader answers callers that have the token of --dashboard-token-file, which is read from the Secret that the pod mounts,
unless it is given. RBAC decides who may do both.
"""

import base64
import contextlib
import posixpath
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib import parse

import msgspec

from windlass import clock, errors
from windlass.autoscaler import app, http_endpoints
from windlass.autoscaler.options.process_options import ProcessOptions
from windlass.kube import client, transport
from windlass.kube import errors as kube_errors

Json = dict[str, Any]

_LEASES = "/apis/coordination.k8s.io/v1"

_DEFAULT_PORT = 8085


class NoLeader(errors.WindlassError):
    """There is no leader, or it cannot be asked; the message says why."""


@dataclass(frozen=True, slots=True)
class Leader:
    """The pod that leads, and how its API is reached."""

    namespace: str
    pod: str
    port: int = _DEFAULT_PORT
    is_tls: bool = False
    token: str = ""

    @property
    def name(self) -> str:
        return f"{self.namespace}/{self.pod}"

    def request(self, path: str, query: tuple[tuple[str, str], ...] = ()) -> transport.Request:
        """A request to its API. The path may hold names of objects, which are percent-encoded."""
        target = f"{'https:' if self.is_tls else ''}{self.pod}:{self.port}"
        at = f"/api/v1/namespaces/{self.namespace}/pods/{target}/proxy{parse.quote(path)}"
        return transport.Request("GET", at, query, {http_endpoints.TOKEN_HEADER: self.token} if self.token else {})


@contextlib.asynccontextmanager
async def connect(options: ProcessOptions) -> AsyncIterator[client.Client]:
    """A client of the API server of the kubeconfig. WindlassError if it cannot be reached."""
    time, limit_s = clock.RealClock(), options.clients.request_timeout_s
    async with app.connect(time, options.clients) as servers:
        await app.check_reachable(servers.workload, time, limit_s)
        yield client.Client(servers.workload, time).without_retries(limit_s)


async def find_leader(api: client.Client, options: ProcessOptions, token: str = "") -> Leader:
    """The leader. NoLeader says why there is none."""
    namespace, holder = await _find_holder(api, options)
    name = holder.partition("_")[0]
    try:
        pod = await _get(api, f"/api/v1/namespaces/{namespace}/pods/{parse.quote(name, safe='')}")
    except kube_errors.ApiError as error:
        raise NoLeader(f"the leader is {holder} of no pod in {namespace}: {_say(error)}") from None
    words = _arguments_of(pod)
    port = _port_of(words.get("address", ""))
    found = token or await _read_token(api, namespace, pod, words.get("dashboard-token-file", ""))
    return Leader(namespace, name, port, bool(words.get("tls-cert-file")), found)


async def fetch(api: client.Client, leader: Leader, path: str) -> bytes:
    """What the leader answers. NoLeader if the proxy or the leader lets nobody in; NotFound of the leader itself."""
    try:
        return await api.call(leader.request(path))
    except kube_errors.NotFound as error:
        if error.status.reason:  # of the API server: the pod is gone
            raise NoLeader(f"{leader.name} cannot be reached: {_say(error)}") from None
        raise
    except kube_errors.ApiError as error:
        raise NoLeader(f"{leader.name} cannot be asked through the API server: {_say(error)}") from None


async def _find_holder(api: client.Client, options: ProcessOptions) -> tuple[str, str]:
    """Namespace and holder of the Lease: of any namespace, unless one is named or the others may not be read."""
    name = options.leader_election.leader_elect_resource_name
    namespace = options.lease_namespace
    leases: list[Json] = []
    with contextlib.suppress(kube_errors.ApiError):
        query = (("fieldSelector", f"metadata.name={name}"),)
        leases = (await _get(api, f"{_LEASES}/leases", query)).get("items") or []
    if not leases:
        with contextlib.suppress(kube_errors.ApiError):
            leases = [await _get(api, f"{_LEASES}/namespaces/{namespace}/leases/{name}")]
    held = {one["metadata"]["namespace"]: (one.get("spec") or {}).get("holderIdentity") or "" for one in leases}
    held = {place: holder for place, holder in held.items() if holder}
    if namespace in held:
        return namespace, held[namespace]
    if len(held) == 1:
        return next(iter(held.items()))
    if held:
        raise NoLeader(f"there are Leases {name} in {', '.join(sorted(held))}: name one with --namespace")
    raise NoLeader(f"no Lease {name} names a leader")


async def _get(api: client.Client, path: str, query: tuple[tuple[str, str], ...] = ()) -> Json:
    body: Json = msgspec.json.decode(await api.call(transport.Request("GET", path, query)))
    return body


def _arguments_of(pod: Json) -> Mapping[str, str]:
    """The flags of the pod's containers that are given as --NAME=VALUE."""
    containers = (pod.get("spec") or {}).get("containers") or []
    words = [word for one in containers for word in (*(one.get("command") or ()), *(one.get("args") or ()))]
    pairs = (word.lstrip("-").partition("=") for word in words if word.startswith("-"))
    return {name: value for name, _, value in pairs}


def _port_of(address: str) -> int:
    port = address.rpartition(":")[2]
    return int(port) if port.isascii() and port.isdigit() else _DEFAULT_PORT


async def _read_token(api: client.Client, namespace: str, pod: Json, file: str) -> str:
    """The token in the Secret that is mounted where the file is; empty if it cannot be read."""
    spec = pod.get("spec") or {}
    secrets = {one["name"]: one["secret"] for one in spec.get("volumes") or () if one.get("secret")}
    for container in spec.get("containers") or ():
        for mount in container.get("volumeMounts") or ():
            inside = posixpath.relpath(file, mount["mountPath"]) if file else ".."
            if mount["name"] not in secrets or inside.startswith(".."):
                continue
            source = secrets[mount["name"]]
            keys = {one["path"]: one["key"] for one in source.get("items") or ()}
            with contextlib.suppress(kube_errors.ApiError, KeyError, ValueError):
                found = await _get(api, f"/api/v1/namespaces/{namespace}/secrets/{source['secretName']}")
                return base64.b64decode(found["data"][keys.get(inside, inside)]).decode().strip()
    return ""


def _say(error: kube_errors.ApiError) -> str:
    return " ".join((error.status.message or str(error)).split())
