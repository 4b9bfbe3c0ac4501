"""An API server over HTTP for commands that run in this thread: the embedded one, with a proxy to pods."""

import asyncio
import base64
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import prometheus_client
from aiohttp import web

from windlass import clock, errors
from windlass.apiserver import embedded_server, server
from windlass.autoscaler import http_endpoints
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.snapshot import cluster_snapshot
from windlass.explain import explain_context
from windlass.kube import transport
from windlass.observability import status_builder
from windlass.observability.status_publisher import StatusPublisher
from windlass.runtime import health, http_server
from windlass.simulator.cluster import api_client

Json = dict[str, Any]
T = TypeVar("T")
TOKEN = "a-token-that-is-long-enough"
DECIDED_S = 1_700_000_000.0
"""When the leader decided last."""


class _Asked:
    """A leader that has decided on an empty cluster."""

    past_choices: dict[str, explain_context.PastChoice] = {}  # noqa: RUF012
    set_aside: tuple[errors.InvalidObject, ...] = ()

    async def query(self, question: Callable[[Observation, LoopMemory, Settings, float], T]) -> T:
        return question(Observation(cluster_snapshot.Snapshot()), LoopMemory(), Settings(), DECIDED_S)


class _ProxyingServer(embedded_server.HttpServer):
    """The embedded server; `pods/proxy` leads to the port of the leader on this machine, without Authorization."""

    def __init__(self, served: server.Server, time: clock.Clock, leader_port: int) -> None:
        super().__init__(served, time)
        self._leader_port = leader_port
        self.proxied: list[str] = []

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        before, proxy, path = request.path.partition("/proxy/")
        if not proxy:
            return await super()._serve(request)
        self.proxied.append(f"{before.rpartition('/')[2]} /{path}")
        headers = {name: value for name, value in request.headers.items() if name.lower() == "windlass-token"}
        # As a request from another machine is: one from here would need no token.
        headers["Host"] = "leader.example"
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self._leader_port}/{path}", headers=headers) as answer,
        ):
            return web.Response(status=answer.status, body=await answer.read())


class ApiServer:
    """The server, its kubeconfig, and requests to it from the test."""

    def __init__(self, served: server.Server, http: _ProxyingServer, kubeconfig: Path) -> None:
        self._served, self._http, self.kubeconfig = served, http, kubeconfig

    @property
    def proxied(self) -> list[str]:
        """What pods were asked through the proxy: `pod:port /path`."""
        return self._http.proxied

    def add(self, path: str, body: Json) -> None:
        answer = self._served.handle(transport.Request("POST", path, body=json.dumps(body).encode()))
        assert answer.status == 201, answer.body

    def elect(self, holder: str, namespace: str = "kube-system") -> None:
        """Make the Lease, as its holder does."""
        metadata = {"name": "cluster-autoscaler", "namespace": namespace}
        kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self.add(path, {**kind, "spec": {"holderIdentity": holder}})

    def run_leader(self, name: str, *args: str) -> None:
        """Make the pod of a leader, which mounts the Secret of its token."""
        self.add(
            "/api/v1/namespaces/kube-system/secrets",
            {"metadata": {"name": "dashboard"}, "data": {"token": base64.b64encode(TOKEN.encode()).decode()}},
        )
        container = {
            "name": "autoscaler",
            "image": "windlass",
            "args": [*args, "--dashboard-token-file=/etc/dashboard/token"],
            "volumeMounts": [{"name": "token", "mountPath": "/etc/dashboard"}],
        }
        volumes = [{"name": "token", "secret": {"secretName": "dashboard"}}]
        spec = {"containers": [container], "volumes": volumes}
        self.add("/api/v1/namespaces/kube-system/pods", {"metadata": {"name": name}, "spec": spec})


@contextlib.contextmanager
def serving(folder: Path, *, token: str = TOKEN) -> Iterator[ApiServer]:
    """Serve in a thread until the end. `token`: which the leader accepts."""
    (folder / "token").write_text(token)
    began, found = threading.Event(), list[ApiServer]()
    ending: list[Callable[[], object]] = []

    async def run() -> None:
        real, is_over, loop = clock.RealClock(), asyncio.Event(), asyncio.get_running_loop()
        ending.append(lambda: loop.call_soon_threadsafe(is_over.set))
        published = StatusPublisher(real.now_s, status_builder.PublisherInfo("live"))
        app = http_endpoints.make_app(
            health.Health(), prometheus_client.CollectorRegistry(), lambda: "",  # type: ignore[arg-type]
            answering=_Asked(), published=published, token_file=str(folder / "token"),
        )  # fmt: skip
        served = server.Server(real)
        for definition in api_client.list_crds():
            served.apply(definition)
        async with http_server.serve("127.0.0.1:0", app) as port:
            http = _ProxyingServer(served, real, port)
            await http.start()
            path = folder / "kubeconfig"
            cluster = {"name": "here", "cluster": {"server": http.url}}
            context = {"name": "here", "context": {"cluster": "here"}}
            path.write_text(json.dumps({"current-context": "here", "contexts": [context], "clusters": [cluster]}))
            found.append(ApiServer(served, http, path))
            began.set()
            await is_over.wait()
            await http.close()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        assert began.wait(30.0)
        yield found[0]
    finally:
        for end in ending:
            end()
        thread.join()
