"""A dashboard on a port of this machine, of a cluster that a test makes up."""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TypeVar

from tests.engine.decide import builders
from tests.engine.decide.builders import NOW_S
from windlass import errors
from windlass.autoscaler.published.publisher import Publisher
from windlass.engine import facts
from windlass.engine.decide import decide
from windlass.engine.memory import Memory
from windlass.engine.observation import Observation
from windlass.engine.settings import Settings
from windlass.explain import choices
from windlass.runtime import serving
from windlass.web import access, dashboard

T = TypeVar("T")
TOKEN = "a-token-of-the-tests"


class Cluster:
    """Decides when a test says so, and can be asked in between."""

    past: Mapping[str, choices.Past] = {}
    set_aside: tuple[errors.InvalidObject, ...] = ()

    def __init__(self) -> None:
        self.now_s, self.memory, self.has_decided = NOW_S, Memory(), False
        self.published = Publisher(lambda: self.now_s)
        self.nodes: list[facts.Node] = builders.nodes("a", 3)
        self.pods: list[facts.Pod] = [builders.pending("large", 9000)]

    @property
    def seen(self) -> Observation:
        return builders.observe([builders.group("a", self.nodes)], self.nodes, self.pods)

    def go_round(self) -> None:
        self.now_s += 10.0
        seen = self.seen
        decision = decide(seen, self.memory, Settings(), self.now_s)
        self.memory, self.has_decided = decision.memory, True
        self.published.decided(seen, decision, self.now_s)

    async def ask(self, question: Callable[[Observation, Memory, Settings, float], T]) -> T:
        if not self.has_decided:
            raise errors.WindlassError("it has decided nothing yet")
        return question(self.seen, self.memory, Settings(), self.now_s)


@contextlib.asynccontextmanager
async def serve(cluster: Cluster, allowed: access.Access | None = None, port: int = 0) -> AsyncIterator[str]:
    app = dashboard.make_app(cluster.published, cluster, allowed or access.Loopback())
    async with serving.serve(f"127.0.0.1:{port}", app) as port:
        yield f"http://127.0.0.1:{port}"
