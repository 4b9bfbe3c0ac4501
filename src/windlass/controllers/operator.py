"""The operator: some controllers in one process, of which one leads, seen from outside through health and metrics."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from windlass.controllers import controller
from windlass.runtime import health, leader_election, serving


@dataclass(frozen=True, slots=True)
class Election:
    """Where the lease is, and how long it lasts."""

    namespace: str = "windlass-system"
    name: str = "windlass-operator"
    settings: leader_election.Settings = field(default_factory=leader_election.Settings)


async def run(
    controllers: Sequence[controller.Controller],
    site: controller.Site,
    *,
    election: Election | None = None,
    address: str = "",
) -> None:
    """Run controllers until cancelled. Without an election they run at once; without an address nothing is served."""
    state = health.Health()
    for each in controllers:
        state.ready[each.name] = each.complain
    if not address:
        await _lead(controllers, site, election)
        return
    async with serving.serve(address, serving.make_app(state, site.measures.registry)):
        await _lead(controllers, site, election)


async def _lead(controllers: Sequence[controller.Controller], site: controller.Site, election: Election | None) -> None:
    if election is None:
        await _run_all(controllers)
        return
    identity = leader_election.make_identity()
    standing = leader_election.Election(site.api, election.namespace, election.name, identity, election.settings)
    await standing.run(lambda: _run_all(controllers))


async def _run_all(controllers: Sequence[controller.Controller]) -> None:
    async with asyncio.TaskGroup() as group:
        for each in controllers:
            group.create_task(each.run(), name=each.name)
