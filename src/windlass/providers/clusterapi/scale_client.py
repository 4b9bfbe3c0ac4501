"""Scale subresource client: reads and writes the size of a group, and detects sizes that another controller reverts.

A size is written only over the size that is known; after a conflict or a lost response it is read again. Until the
informer shows a written size, the written size holds. A group whose last two written sizes were both reverted within a
while (ClusterClass topology, GitOps) is contested and not resized for a time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass import clock, selectors
from windlass.engine.model import node_groups
from windlass.kube import client, errors, request_builders
from windlass.providers import base
from windlass.providers.clusterapi.delete_annotations import FIELD_MANAGER
from windlass.providers.clusterapi.scalable_resources import ScalableResource

SIZE_REVERTED_CODE = "sizePutBack"
"""Reason of failed scale-ups, in metrics and status."""

CONTESTED_AFTER_REVERTS = 2
"""Consecutive reverted sizes until a group is contested."""

_WITHIN_S = 900.0
"""A change later than this is no revert; GitOps tools reconcile every few minutes."""

_TRY_AGAIN_S = 1800.0
"""Time for which a contested group is not resized."""

_REMEDIES = (
    ("capi-topology", "remove replicas from the group's entry in Cluster.spec.topology.workers"),
    ("argocd", "add /spec/replicas to ignoreDifferences of the Argo CD Application"),
    ("kustomize-controller", "leave spec.replicas out of the manifests that Flux applies"),
    ("helm", "leave spec.replicas out of the chart's templates"),
)

_ANY_REMEDY = "leave spec.replicas out of what it applies"


@dataclass(frozen=True, slots=True)
class ReplicasAtVersion:
    """Replicas at a resourceVersion."""

    replicas: int
    resource_version: str


@dataclass(frozen=True, slots=True)
class _WrittenSize:
    """A size that this process wrote."""

    size: ReplicasAtVersion
    is_raised: bool
    at_s: float


class RevertTracker:
    """Tracks by group whether written sizes are reverted."""

    def __init__(self, time: clock.Clock) -> None:
        self._clock = time
        self._written: dict[str, _WrittenSize] = {}
        self._undone: dict[str, int] = {}
        """Consecutive reverts."""
        self._undone_at_s: dict[str, float] = {}
        self._is_told: set[str] = set()

    def record_write(self, id: str, before: int, size: ReplicasAtVersion) -> None:
        """Record a written size and the one before it."""
        if (written := self._written.get(id)) is not None:
            self._check_reverted(id, before, written)
            if self._written.pop(id, None) is not None:  # unchanged since the last write: not contested
                self._undone.pop(id, None)
        if size.replicas != before:
            self._is_told.discard(id)
            self._written[id] = _WrittenSize(size, size.replicas > before, self._clock.monotonic_s())

    def observe_size(self, id: str, replicas_at_version: ReplicasAtVersion) -> None:
        """Check whether the observed size reverts a written one."""
        written = self._written.get(id)
        if written is not None and parse_resource_version(
            replicas_at_version.resource_version
        ) > parse_resource_version(written.size.resource_version):
            self._check_reverted(id, replicas_at_version.replicas, written)

    def _check_reverted(self, id: str, replicas: int, written: _WrittenSize) -> None:
        now_s = self._clock.monotonic_s()
        if now_s >= written.at_s + _WITHIN_S:
            del self._written[id]
            self._undone.pop(id, None)
        elif _reverts(replicas, written):
            del self._written[id]
            self._undone[id] = self._undone.get(id, 0) + 1
            self._undone_at_s[id] = now_s

    def is_contested(self, id: str) -> bool:
        """True if the last written sizes were reverted recently."""
        lately = self._clock.monotonic_s() < self._undone_at_s.get(id, float("-inf")) + _TRY_AGAIN_S
        return self._undone.get(id, 0) >= CONTESTED_AFTER_REVERTS and lately

    def should_refuse(self, id: str) -> bool:
        """True once for a contested group; the size is written again after the refusal."""
        if not self.is_contested(id) or id in self._is_told:
            return False
        self._is_told.add(id)
        return True


def _reverts(replicas: int, written: _WrittenSize) -> bool:
    return replicas < written.size.replicas if written.is_raised else replicas > written.size.replicas


def find_replicas_owners(scale: dict[str, Any], own: str) -> list[str]:
    """Field managers other than ours that own `spec.replicas`, from managedFields."""
    return list(dict.fromkeys(name for name in _list_replicas_owners(scale) if name != own))


def _list_replicas_owners(scale: dict[str, Any]) -> Iterator[str]:
    for entry in (scale.get("metadata") or {}).get("managedFields") or ():
        spec = (entry.get("fieldsV1") or {}).get("f:spec")
        if isinstance(spec, dict) and "f:replicas" in spec:
            yield str(entry.get("manager") or "")


def size_contested_error(id: str, owners: list[str]) -> base.ProviderError:
    """Why the group is not resized, and how to solve it."""
    who = ", ".join(owners) or "another writer"
    remedy = next((text for name, text in _REMEDIES if any(name in owner for owner in owners)), _ANY_REMEDY)
    message = f"the size of {id} was put back twice by {who}, which owns spec.replicas: {remedy}"
    return base.ProviderError(node_groups.InstanceError("Other", SIZE_REVERTED_CODE, message))


def parse_resource_version(resource_version: str) -> int:
    """A resourceVersion as a number, to compare versions of one object."""
    return selectors.parse_int64(resource_version) or 0


CLOUD_PROVIDER_ERROR = "cloudProviderError"
"""Reason under which dashboards of Cluster Autoscaler show a provider's errors."""


def provider_error(message: str) -> base.ProviderError:
    return base.ProviderError(node_groups.InstanceError("Other", CLOUD_PROVIDER_ERROR, message))


def api_call_error(error: errors.KubeError) -> base.ProviderError:
    return provider_error(str(error))


class ReplicasCache:
    """Written sizes that the informer has not shown yet."""

    def __init__(self, put_backs: RevertTracker) -> None:
        self._put_backs = put_backs
        self._written: dict[str, ReplicasAtVersion] = {}
        """By group."""

    def record(self, id: str, size: ReplicasAtVersion) -> None:
        self._written[id] = size

    def read(self, group: ScalableResource) -> int:
        return self.read_version(group).replicas

    def read_version(self, group: ScalableResource) -> ReplicasAtVersion:
        """Replicas and resourceVersion of an object."""
        replicas_at_version = ReplicasAtVersion(group.spec.replicas or 0, group.meta.resource_version or "")
        written = self._written.get(group.id)
        if written is not None and parse_resource_version(
            replicas_at_version.resource_version
        ) < parse_resource_version(written.resource_version):
            return written
        self._written.pop(group.id, None)
        self._put_backs.observe_size(group.id, replicas_at_version)
        return replicas_at_version


_TRIES = 5


class ScaleOutcomeUnknown(base.ProviderError):
    """A size was sent without a response: it may or may not be set."""


class ScaleClient:
    """Reads and writes sizes on the server."""

    def __init__(self, api: client.Client, sizes: ReplicasCache, undone: RevertTracker) -> None:
        self._api = api
        self._sizes = sizes
        self._put_backs = undone

    async def read(self, group: ScalableResource) -> ReplicasAtVersion:
        return await self._get(group, None)

    async def write(
        self,
        group: ScalableResource,
        choose: Callable[[int], int],
        replicas_at_version: ReplicasAtVersion | None = None,
    ) -> None:
        """Write the size that `choose` returns for the current one: `known`, or the re-read one after a conflict.

        `choose` may raise ProviderError.
        """
        sent: int | None = None
        before = 0
        for remaining in reversed(range(_TRIES)):
            size = replicas_at_version or await self._get(group, sent)
            replicas_at_version = None
            desired = size.replicas if size.replicas == sent else choose(size.replicas)
            if desired == size.replicas:
                self._sizes.record(group.id, size)
                if sent is not None:
                    self._put_backs.record_write(group.id, before, size)
                return
            try:
                written = await self._patch(group, desired, size.resource_version)
                self._sizes.record(group.id, written)
                self._put_backs.record_write(group.id, size.replicas, written)
                return
            except (errors.Conflict, errors.ConnectionLost, errors.ServerError) as error:
                sent, before = desired, size.replicas
                if not remaining:
                    raise ScaleOutcomeUnknown(api_call_error(error).error) from error
            except errors.KubeError as error:
                raise api_call_error(error) from error

    async def find_owners(self, group: ScalableResource) -> list[str]:
        """Other owners of the size by managedFields; empty if they cannot be read.

        Uses list, since the RBAC rules include no get.
        """
        only = request_builders.ListOptions(group.namespace, fields=f"metadata.name={group.name}")
        try:
            objects = await self._api.list(group.resource.untyped(), only)
        except errors.KubeError:
            return []
        return [owner for item in objects.items for owner in find_replicas_owners(item, FIELD_MANAGER)]

    async def _get(self, group: ScalableResource, sent: int | None) -> ReplicasAtVersion:
        try:
            return _read_scale(await self._api.get_scale(group.resource, group.name, group.namespace))
        except errors.KubeError as error:
            refused = api_call_error(error)
            raise refused if sent is None else ScaleOutcomeUnknown(refused.error) from error

    async def _patch(self, group: ScalableResource, replicas: int, version: str) -> ReplicasAtVersion:
        writer = request_builders.WriteOptions(FIELD_MANAGER, self._api.settings.writer.dry_run)
        request = request_builders.build_scale(
            group.resource, group.name, replicas, group.namespace, resource_version=version, writer=writer
        )
        return _read_scale(msgspec.json.decode(await self._api.call(request)))


def _read_scale(scale: dict[str, object]) -> ReplicasAtVersion:
    """The replicas of a Scale; omitted means 0."""
    spec, metadata = scale.get("spec"), scale.get("metadata")
    replicas = spec.get("replicas", 0) if isinstance(spec, dict) else 0
    version = metadata.get("resourceVersion", "") if isinstance(metadata, dict) else ""
    return ReplicasAtVersion(int(replicas), str(version))
