"""Asking a server without a transport: the core is synchronous."""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from windlass import clock
from windlass.apiserver import registry, responses, server
from windlass.kube import transport

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
NOW_S = 1_700_000_000.0


@dataclass
class Asked:
    """A server at a virtual time, and how to ask it."""

    settings: registry.ServerSettings = field(default_factory=registry.ServerSettings)

    def __post_init__(self) -> None:
        self.clock = clock.VirtualClock(NOW_S)
        self.server = server.Server(self.clock, self.settings)

    def send(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", **query: Any
    ) -> responses.ApiResponse:
        headers = {"content-type": kind, "user-agent": "tests/1", "accept": "application/json"}
        pairs = tuple((name, str(value)) for name, value in query.items())
        raw = b"" if body is None else msgspec.json.encode(body)
        return self.server.handle(transport.Request(method, path, pairs, headers, raw))

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json", **query: Any) -> Json:
        """The object that a request is answered with, which must be good."""
        answer = self.send(method, path, body, kind, **query)
        assert answer.status < 300, answer.body
        decoded: Json = msgspec.json.decode(answer.body)
        return decoded

    def merge(self, path: str, patch: Json) -> Json:
        return self.ask("PATCH", path, patch, "application/merge-patch+json")

    def advance(self, seconds: float) -> None:
        self.clock.set_wall(self.clock.now_s() + seconds)


def config_map(name: str, **data: str) -> Json:
    return {"metadata": {"name": name}, "data": data}


def pod(name: str, **labels: str) -> Json:
    containers = [{"name": "c", "image": "i:1"}]
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": containers}}
