"""Clients of the process: how they name themselves to the API servers."""

from dataclasses import dataclass, field
from typing import Any, cast

from tests.autoscaler.in_process_cluster import Cluster
from tests.autoscaler.test_app_events import add_groups, autoscaling, played
from windlass.kube import transport


@dataclass
class Overhearing:
    """An API server that keeps the user agents of its requests."""

    server: transport.Transport
    agents: set[str] = field(default_factory=set)

    async def send(self, request: transport.Request) -> transport.Response:
        self.agents.add(request.headers["user-agent"])
        return await self.server.send(request)


@played
async def test_requests_name_the_user_agent_that_the_flag_gives(cluster: Cluster) -> None:
    add_groups(cluster, a="4")
    overhearing = Overhearing(cluster.carrier)
    cluster.carrier = cast(Any, overhearing)
    async with autoscaling(cluster, user_agent="mine/2"):
        cluster.add_pod("p", "3")
        await cluster.clock.sleep(30.0)
    assert "mine/2" in overhearing.agents
    overhearing.agents.clear()
    async with autoscaling(cluster):
        await cluster.clock.sleep(30.0)
    assert overhearing.agents == {"cluster-autoscaler"}
