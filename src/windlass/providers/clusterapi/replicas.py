"""Replicas: reading and writing the size of a group through its scale subresource.

A size is written only over the size that was read. Where an answer got lost, or someone else wrote meanwhile, it is
read again: if it is what was to be written, it is done; otherwise what is wanted is worked out anew.
"""

from collections.abc import Callable

import msgspec

from windlass.kube import client, prepare
from windlass.kube import errors as kube_errors
from windlass.providers import base
from windlass.providers.clusterapi import refusals
from windlass.providers.clusterapi.marks import MANAGER
from windlass.providers.clusterapi.scalable import Scalable
from windlass.providers.clusterapi.sizes import Sizes

_TRIES = 5


class OutcomeUnknown(base.Refused):
    """A size was sent, and nobody knows whether it was taken."""


class Replicas:
    """Sizes on the server."""

    def __init__(self, api: client.Client, sizes: Sizes) -> None:
        self._api = api
        self._sizes = sizes

    async def read(self, group: Scalable) -> int:
        try:
            size, _ = await self._get(group)
        except kube_errors.KubeError as error:
            raise refusals.from_call(error) from error
        return size

    async def write(self, group: Scalable, choose: Callable[[int], int]) -> int:
        """Set the size that `choose` makes of the present one; the size that holds then. `choose` may refuse."""
        sent: int | None = None
        last: kube_errors.KubeError | None = None
        for _ in range(_TRIES):
            try:
                size, version = await self._get(group)
            except kube_errors.KubeError as error:
                raise _explain(error, sent) from error
            if size == sent:
                self._sizes.note(group.id, version, size)
                return size
            wanted = choose(size)
            if wanted == size:
                return size
            try:
                answered, version = await self._patch(group, wanted, version)
            except (kube_errors.Conflict, kube_errors.ConnectionLost, kube_errors.ServerError) as error:
                sent, last = wanted, error
                continue
            except kube_errors.KubeError as error:
                raise refusals.from_call(error) from error
            self._sizes.note(group.id, version, answered)
            return answered
        assert last is not None, "every try but the last ended in an error"
        raise refusals.from_call(last) from last

    async def _get(self, group: Scalable) -> tuple[int, str]:
        return _read(await self._api.get_scale(group.resource, group.name, group.namespace))

    async def _patch(self, group: Scalable, replicas: int, version: str) -> tuple[int, str]:
        writer = prepare.Writer(MANAGER, self._api.settings.writer.dry_run)
        request = prepare.scale(
            group.resource, group.name, replicas, group.namespace, resource_version=version, writer=writer
        )
        return _read(msgspec.json.decode(await self._api.call(request)))


def _explain(error: kube_errors.KubeError, sent: int | None) -> base.Refused:
    refused = refusals.from_call(error)
    return refused if sent is None else OutcomeUnknown(refused.error)


def _read(scale: dict[str, object]) -> tuple[int, str]:
    """(replicas, resourceVersion) of a Scale. At zero it says nothing."""
    spec, metadata = scale.get("spec"), scale.get("metadata")
    replicas = spec.get("replicas", 0) if isinstance(spec, dict) else 0
    version = metadata.get("resourceVersion", "") if isinstance(metadata, dict) else ""
    return int(replicas), str(version)
