"""The operator: some controllers in one process, of which one leads, seen from outside through health and metrics."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass.controllers import controller
from windlass.controllers.webhooks import reviewing
from windlass.controllers.webhooks import serving as hooks
from windlass.runtime import health, serving, tls


@dataclass(frozen=True, slots=True)
class Webhooks:
    """What is served for admission, and where."""

    address: str
    """host:port."""
    directory: Path
    """With the certificate (tls.crt) and its key (tls.key)."""
    hooks: Mapping[str, reviewing.Hook]
    """By path."""


async def run(
    controllers: Sequence[controller.Controller],
    site: controller.Site,
    *,
    address: str = "",
    certificate: Path | None = None,
    webhooks: Webhooks | None = None,
) -> None:
    """Run controllers until cancelled: at once, or if the site has an election while it is won.

    Without an address nothing is served.

    Webhooks are served whether or not this process leads. `certificate`: the directory with that of the address.
    """
    state = health.Health()
    for each in controllers:
        state.ready[each.name] = each.complain
    async with contextlib.AsyncExitStack() as served:
        if address:
            files = None if certificate is None else hooks.find_files(certificate, "--metrics-cert-dir")
            context = await served.enter_async_context(tls.current(files, site.api.clock))
            app = serving.make_app(state, site.measures.registry)
            await served.enter_async_context(serving.serve(address, app, context))
        if webhooks is not None:
            await served.enter_async_context(
                hooks.serve(webhooks.address, webhooks.directory, webhooks.hooks, site.api.clock)
            )
        if site.election is None:
            await _run_all(controllers)
        else:
            await site.election.run(lambda: _run_all(controllers))


async def _run_all(controllers: Sequence[controller.Controller]) -> None:
    async with asyncio.TaskGroup() as group:
        for each in controllers:
            group.create_task(each.run(), name=each.name)
