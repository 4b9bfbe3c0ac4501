"""Replicas: reading and writing the size of a group through its scale subresource.

A size is written only over the size that is known. Where that was wrong, because someone else wrote meanwhile, or where
an answer got lost, it is read again: if it is what was to be written, it is done; otherwise it is worked out anew.
"""

from collections.abc import Callable

import msgspec

from windlass.kube import client, prepare
from windlass.kube import errors as kube_errors
from windlass.providers import base
from windlass.providers.clusterapi import put_backs, refusals
from windlass.providers.clusterapi.marks import MANAGER
from windlass.providers.clusterapi.put_backs import PutBacks, Size
from windlass.providers.clusterapi.scalable import Scalable
from windlass.providers.clusterapi.sizes import Sizes

_TRIES = 5


class OutcomeUnknown(base.Refused):
    """A size was sent, and nobody knows whether it was taken."""


class Replicas:
    """Sizes on the server."""

    def __init__(self, api: client.Client, sizes: Sizes, undone: PutBacks) -> None:
        self._api = api
        self._sizes = sizes
        self._put_backs = undone

    async def read(self, group: Scalable) -> Size:
        return await self._get(group, None)

    async def write(self, group: Scalable, choose: Callable[[int], int], known: Size | None = None) -> None:
        """Set the size that `choose` makes of the present one, which is `known` unless it changed meanwhile.

        `choose` may refuse.
        """
        sent: int | None = None
        before = 0
        for left in reversed(range(_TRIES)):
            size = known or await self._get(group, sent)
            known = None
            wanted = size.replicas if size.replicas == sent else choose(size.replicas)
            if wanted == size.replicas:
                self._sizes.note(group.id, size)
                if sent is not None:
                    self._put_backs.note(group.id, before, size)
                return
            try:
                written = await self._patch(group, wanted, size.resource_version)
                self._sizes.note(group.id, written)
                self._put_backs.note(group.id, size.replicas, written)
                return
            except (kube_errors.Conflict, kube_errors.ConnectionLost, kube_errors.ServerError) as error:
                sent, before = wanted, size.replicas
                if not left:
                    raise OutcomeUnknown(refusals.from_call(error).error) from error
            except kube_errors.KubeError as error:
                raise refusals.from_call(error) from error

    async def find_owners(self, group: Scalable) -> list[str]:
        """Who else holds the size, by the object's managedFields; nobody where they cannot be read.

        Listed, not got: following is all that our rights allow.
        """
        only = prepare.Selection(group.namespace, fields=f"metadata.name={group.name}")
        try:
            found = await self._api.list(group.resource.untyped(), only)
        except kube_errors.KubeError:
            return []
        return [owner for one in found.items for owner in put_backs.find_owners(one, MANAGER)]

    async def _get(self, group: Scalable, sent: int | None) -> Size:
        try:
            return _read(await self._api.get_scale(group.resource, group.name, group.namespace))
        except kube_errors.KubeError as error:
            refused = refusals.from_call(error)
            raise refused if sent is None else OutcomeUnknown(refused.error) from error

    async def _patch(self, group: Scalable, replicas: int, version: str) -> Size:
        writer = prepare.Writer(MANAGER, self._api.settings.writer.dry_run)
        request = prepare.scale(
            group.resource, group.name, replicas, group.namespace, resource_version=version, writer=writer
        )
        return _read(msgspec.json.decode(await self._api.call(request)))


def _read(scale: dict[str, object]) -> Size:
    """The size that a Scale tells. At zero it says nothing."""
    spec, metadata = scale.get("spec"), scale.get("metadata")
    replicas = spec.get("replicas", 0) if isinstance(spec, dict) else 0
    version = metadata.get("resourceVersion", "") if isinstance(metadata, dict) else ""
    return Size(int(replicas), str(version))
