"""Delete-machine annotations: which Machines go first when a group shrinks, and deletions that are still pending.

The annotation and the lower replica count are two writes. A process that dies in between leaves an annotation that
would send the wrong Machine away next time, so annotations are classified as acted on or stale, and stale ones are
removed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from dataclasses import dataclass

from windlass.kube import client, errors, request_builders, resources, time_formats
from windlass.kube.models import clusterapi
from windlass.kube.resources import Resource
from windlass.providers.clusterapi import machines
from windlass.providers.clusterapi.machines import Machine


class PendingDeletions:
    """Deletions in progress: Machines by uid, and instances without Machines by group."""

    def __init__(self) -> None:
        self._machines: set[str] = set()
        self._instances: dict[str, set[str]] = {}

    @property
    def machines(self) -> frozenset[str]:
        return frozenset(self._machines)

    @property
    def is_empty(self) -> bool:
        return not self._machines and not any(self._instances.values())

    def add(self, group: str, uids: Iterable[str], without_machine: Iterable[str]) -> None:
        self._machines.update(uids)
        ids = (machines.normalize_provider_id(item) for item in without_machine)
        self._instances.setdefault(group, set()).update(ids)

    def discard(self, uids: Iterable[str]) -> None:
        """These Machines are not deleted after all."""
        self._machines -= set(uids)

    def is_pending(self, group: str, provider_id: str) -> bool:
        return machines.normalize_provider_id(provider_id) in self._instances.get(group, ())

    def retain(self, uids: Iterable[str], listed: dict[str, set[str]]) -> None:
        """Forget Machines that are gone, and instances that MachinePools no longer list."""
        self._machines &= set(uids)
        self._instances = {group: told & listed.get(group, set()) for group, told in self._instances.items() if told}


FIELD_MANAGER = "cluster-autoscaler"
"""Field manager: Cluster Autoscaler's name, which policies and dashboards of users refer to."""

_TRIES = 5

_AT_ONCE = 8

_POLL_S = 0.02

_SEEN_WITHIN_S = 2.0

_TAKEN_WITHIN_S = 5.0

_OTHERS_HEAR_S = 0.2
"""Maximum delay between our watch and Cluster API's watch of an annotation."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeleteAnnotationState:
    """Delete-machine annotations of one group."""

    leaving: frozenset[str]
    """Machines that are about to be deleted, by uid."""
    stale: tuple[Machine, ...]
    """Machines with an annotation that has no effect yet, or that may have one that our watch has not delivered."""


def classify_annotations(
    machines: Sequence[Machine], replicas: int, remembered: Container[str], is_rolling_out: bool
) -> DeleteAnnotationState:
    """Classify annotated Machines as being deleted or stale.

    `remembered` are uids that this process annotated before it lowered the size; they are being deleted. During a
    rollout surplus Machines have another cause, so only remembered ones count.
    """
    alive = [machine for machine in machines if not machine.is_deleting]
    own = [machine for machine in alive if machine.uid in remembered]
    others = [machine for machine in alive if machine.is_marked and machine.uid not in remembered]
    surplus = max(len(alive) - replicas, 0)
    leaving = frozenset(machine.uid for machine in (own if is_rolling_out else own + others)[:surplus])
    return DeleteAnnotationState(leaving, tuple(machine for machine in own + others if machine.uid not in leaving))


class DeleteAnnotations:
    """Sets and removes delete-machine annotations."""

    def __init__(self, api: client.Client, machines: Resource[clusterapi.Machine], mark: str) -> None:
        self._api = api
        self._machines: Resource[resources.Unstructured] = machines.untyped()
        self._mark = mark
        self._at_once = asyncio.Semaphore(_AT_ONCE)

    async def annotate(self, machines: Iterable[Machine]) -> tuple[list[Machine], dict[str, errors.KubeError]]:
        """Annotate Machines. Returns the annotated ones, and errors by uid; the others are gone.

        A failed write may have succeeded on the server, and a lower size would then delete that Machine: the annotation
        is removed again. If that fails as well, all annotations are removed and the call raises.
        """
        selected = list(machines)
        done = await self._each(selected, self._annotate_one)
        outcomes = list(zip(selected, done, strict=True))
        marked = [machine for machine, outcome in outcomes if outcome is True]
        failed = [(machine, outcome) for machine, outcome in outcomes if isinstance(outcome, errors.KubeError)]
        if await self.remove(machine for machine, _ in failed):
            await self.remove(marked)
            raise failed[0][1]
        return marked, {machine.uid: error for machine, error in failed}

    async def wait_observed(self, marked: Sequence[Machine], find: Callable[[Machine], Machine | None]) -> None:
        """Wait until the annotations are observed; `find` looks up a Machine in our store.

        Cluster API watches annotations and sizes separately. A size that arrives first deletes an arbitrary Machine
        with its pods. A delayed watch of ours holds the size up for a short time only.
        """
        await self._wait(_SEEN_WITHIN_S, lambda: all(self._is_observed(find(machine)) for machine in marked))
        await self._api.clock.sleep(_OTHERS_HEAR_S)

    async def wait_deleting(self, is_taken: Callable[[], bool]) -> None:
        """Wait until Cluster API deletes the Machines: raising the size earlier would keep them instead.

        Cluster API acts on the last size it observes, not on each one. If no controller acts on sizes, the wait is
        short.
        """
        await self._wait(_TAKEN_WITHIN_S, is_taken)

    async def _wait(self, at_most_s: float, is_so: Callable[[], bool]) -> None:
        clock = self._api.clock
        until_s = clock.monotonic_s() + at_most_s
        while clock.monotonic_s() < until_s and not is_so():
            await clock.sleep(_POLL_S)

    def _is_observed(self, machine: Machine | None) -> bool:
        return machine is None or machine.is_marked

    async def remove(self, machines: Iterable[Machine]) -> list[errors.KubeError]:
        """Remove annotations. Failures are logged and retried with the next change."""
        selected = list(machines)
        done = await self._each(selected, self._remove_one)
        failures = []
        for machine, outcome in zip(selected, done, strict=True):
            if isinstance(outcome, errors.KubeError):
                _log.warning("failed to remove delete annotation: machine=%s error=%s", machine.key, outcome)
                failures.append(outcome)
        return failures

    async def _each(
        self, machines: Sequence[Machine], act: Callable[[Machine], Awaitable[bool]]
    ) -> list[bool | errors.KubeError]:
        async def one(machine: Machine) -> bool | errors.KubeError:
            async with self._at_once:
                try:
                    return await act(machine)
                except errors.KubeError as error:
                    return error

        return list(await asyncio.gather(*(one(machine) for machine in machines)))

    async def _annotate_one(self, machine: Machine) -> bool:
        now = time_formats.format_time(self._api.clock.now_s())
        return await self._change(machine, now)

    async def _remove_one(self, machine: Machine) -> bool:
        return await self._change(machine, None)

    async def _change(self, machine: Machine, value: str | None) -> bool:
        """Read and update the whole object, as the RBAC rules allow. False if the Machine is gone or being deleted."""
        name, namespace = machine.name, machine.namespace
        for remaining in reversed(range(_TRIES)):
            try:
                live_machine = await self._api.get(self._machines, name, namespace)
            except errors.NotFound:
                return False
            metadata = live_machine["metadata"]
            if metadata.get("uid") != machine.uid or metadata.get("deletionTimestamp"):
                return False
            annotations = metadata.get("annotations") or {}
            if (self._mark in annotations) == (value is not None):
                return True
            metadata["annotations"] = {key: text for key, text in annotations.items() if key != self._mark}
            if value is not None:
                metadata["annotations"][self._mark] = value
            writer = request_builders.WriteOptions(FIELD_MANAGER, self._api.settings.writer.dry_run)
            try:
                await self._api.call(request_builders.build_update(self._machines, live_machine, writer=writer))
                return True
            except errors.NotFound:
                return False
            except errors.Conflict:
                if not remaining:
                    raise
        return False
