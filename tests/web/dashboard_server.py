"""A dashboard on a port of this machine, of a cluster that a test makes up."""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TypeVar

from tests.engine.loop import builders
from tests.engine.loop.builders import NOW_S
from windlass import errors
from windlass.engine.loop import decide
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import facts
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.explain import explain_context
from windlass.explain.decision_view import DecisionView
from windlass.observability.status_publisher import StatusPublisher
from windlass.runtime import http_server
from windlass.web import dashboard

T = TypeVar("T")
TOKEN = "a-token-of-the-tests"


class Cluster:
    """Decides when a test says so, and can be asked in between."""

    past_choices: Mapping[str, explain_context.PastChoice] = {}
    set_aside: tuple[errors.InvalidObject, ...] = ()

    def __init__(self) -> None:
        self.now_s, self.memory, self.has_decided = NOW_S, LoopMemory(), False
        self.published = StatusPublisher(lambda: self.now_s)
        self.nodes: list[facts.Node] = builders.nodes("a", 3)
        self.pods: list[facts.Pod] = [builders.pending("large", 9000)]

    @property
    def seen(self) -> Observation:
        return builders.observe([builders.group("a", self.nodes)], self.nodes, self.pods)

    def go_round(self) -> None:
        self.now_s += 10.0
        observation = self.seen
        decision = decide(observation, self.memory, Settings(), self.now_s)
        self.memory, self.has_decided = decision.memory, True
        self.published.on_decision(DecisionView(decision), self.now_s)

    async def query(self, question: Callable[[Observation, LoopMemory, Settings, float], T]) -> T:
        if not self.has_decided:
            raise errors.WindlassError("it has decided nothing yet")
        return question(self.seen, self.memory, Settings(), self.now_s)


@contextlib.asynccontextmanager
async def serve(cluster: Cluster, allowed: dashboard.AccessPolicy | None = None, port: int = 0) -> AsyncIterator[str]:
    app = dashboard.make_app(cluster.published, cluster, allowed or dashboard.LoopbackAccess())
    async with http_server.serve(f"127.0.0.1:{port}", app) as port:
        yield f"http://127.0.0.1:{port}"
