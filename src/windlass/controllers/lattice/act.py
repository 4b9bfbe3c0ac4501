"""act: write what runs the autoscaler. Pools are written by `worker_pools.act`."""

from windlass.controllers.lattice import autoscaler, names
from windlass.controllers.lattice.settings import Settings
from windlass.controllers.worker_pools import applying
from windlass.kube import client, errors


class Deploying:
    """Keeps the autoscaler as it should be. What is right already is read, and not written."""

    def __init__(self, api: client.Client, settings: Settings) -> None:
        self._api = api.written_by(names.MANAGER)
        self._wanted = autoscaler.spell(settings)

    async def carry_out(self) -> list[str]:
        """What could not be done, in words."""
        failures = []
        for wanted in self._wanted:
            try:
                await self._make(wanted)
            except errors.KubeError as error:
                failures.append(f"{wanted[0].kind} {wanted[1]['metadata']['name']}: {error}")
        return failures

    async def _make(self, wanted: autoscaler.Wanted) -> None:
        resource, body = wanted
        metadata = body["metadata"]
        try:
            live = await self._api.get(resource, metadata["name"], metadata.get("namespace", ""))
        except errors.NotFound:
            live = None
        if live is None or not applying.is_applied(live, body, names.MANAGER):
            await self._api.apply(resource, body, force=True)
