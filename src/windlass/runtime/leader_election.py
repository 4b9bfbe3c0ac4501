"""Leader election on a Lease, and fencing of writes.

The leader renews the lease every `retry_s`, and leads until `renew_deadline_s` after the beginning of its last
successful renewal. A candidate waits until the lease has not changed for its duration, measured by the monotonic clock.
Fencing: each write checks leadership again right before it is sent, because the process may have been paused for longer
than its lease lasts.
"""

import asyncio
import contextlib
import dataclasses
import logging
import math
import random
import socket
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from windlass import clock, errors
from windlass.kube import client, time_formats, transport
from windlass.kube import errors as kube_errors
from windlass.kube.resources import LEASES, Unstructured

_LEASES = LEASES.untyped()

_JITTER = 1.2
"""Jitter of acquisition: candidates retry after `retry_s` plus up to this share of it."""

_ATTEMPT_S = 1.0
"""Minimum timeout of a renewal attempt."""

_RELEASE_S = 1.0
"""Timeout of the release. Without a release, other candidates wait until the lease expires."""

_LONGEST_LEASE_S = 900
"""Maximum lease duration that is honoured. Otherwise an editor of the Lease could block all candidates for ever."""

_MOST_TRANSITIONS = 2**31 - 2

_UNKNOWN_HOLDER = "(unreadable)"
"""Holder of a malformed lease. The previous leader, if there is one, rewrites it; others wait for its expiry."""

_log = logging.getLogger(__name__)


class LeadershipLost(errors.WindlassError):
    """The lease was not renewed in time; another process may be leader."""


@dataclass(frozen=True, slots=True)
class LeaderElectionSettings:
    """Timing of leader election. `lease_s` > `renew_deadline_s` > `retry_s`."""

    lease_s: int = 15
    """LeaseDuration: time without an observed renewal after which a candidate may acquire the lease."""
    renew_deadline_s: float = 10.0
    """RenewDeadline: time after the last successful renewal until which the leader leads."""
    retry_s: float = 2.0
    """RetryPeriod: interval of renewals and of acquisition attempts."""
    end_s: float = 2.5
    """Grace period of the leader's cleanup after cancellation. Work that takes longer, such as a blocked thread, is
    abandoned: its writes are fenced."""

    def __post_init__(self) -> None:
        if not self.retry_s > 0:
            raise errors.InvalidInput(f"--leader-elect-retry-period: found {self.retry_s:g} s, expected more than 0 s")
        if not self.renew_deadline_s > self.retry_s * _JITTER:
            raise errors.InvalidInput(
                f"--leader-elect-renew-deadline: found {self.renew_deadline_s:g} s, expected more than "
                f"{_JITTER:g} times --leader-elect-retry-period, which is {self.retry_s:g} s"
            )
        if not self.lease_s > self.renew_deadline_s:
            raise errors.InvalidInput(
                f"--leader-elect-lease-duration: found {self.lease_s} s, expected more than "
                f"--leader-elect-renew-deadline, which is {self.renew_deadline_s:g} s"
            )


class LeaseCandidate:
    """State machine of one candidate: observed lease, leadership, and the lease to write. No I/O."""

    def __init__(self, namespace: str, name: str, identity: str, settings: LeaderElectionSettings) -> None:
        self.identity = identity
        self._settings = settings
        self._where = {"namespace": namespace, "name": name}
        self._lease: Unstructured | None = None
        self._seen_at_s = 0.0
        self._free_at_s = -math.inf
        """Earliest acquisition after a deletion of the lease: its holder may still lead until the expiry."""
        self._leads_until_s: float | None = None

    @property
    def holder(self) -> str:
        """The last observed holder of the lease."""
        return "" if self._lease is None else _find_holder(self._lease)

    def leads(self, now_s: float) -> bool:
        return self._leads_until_s is not None and now_s < self._leads_until_s

    @property
    def leads_until_s(self) -> float:
        return self._leads_until_s or 0.0

    def observe(self, lease: Unstructured | None, now_s: float) -> None:
        """Record the lease as read from the server; None if it does not exist."""
        if lease is None and self.holder not in ("", self.identity):
            self._free_at_s = max(self._free_at_s, self._expires_at_s())
        if lease is None or self._lease is None or _version(lease) != _version(self._lease):
            self._seen_at_s = now_s
        self._lease = lease
        if not self._is_free_or_own:
            self._leads_until_s = None

    @property
    def _is_free_or_own(self) -> bool:
        return self.holder in ("", self.identity, _UNKNOWN_HOLDER)

    def may_restore(self, now_s: float) -> bool:
        """True if the lease is ours or deleted, or if its holder was cleared or garbled while we lead."""
        return self._lease is None or self.holder == self.identity or (self._is_free_or_own and self.leads(now_s))

    def may_write(self, now_s: float) -> bool:
        """True if the lease is ours or free, or was not renewed for its duration."""
        if self._lease is None:
            return now_s >= self._free_at_s
        is_ours = self.holder in ("", self.identity) or self.may_restore(now_s)
        return is_ours or now_s >= self._expires_at_s()

    def _expires_at_s(self) -> float:
        """Expiry of the observed lease, at least our own lease duration after its last change.

        A holder may not have observed a shorter duration that another writer set.
        """
        least_s = self._settings.lease_s
        lasts_s = _read_count(self._lease, "leaseDurationSeconds", max(_LONGEST_LEASE_S, least_s))
        return self._seen_at_s + max(lasts_s, least_s)

    def build_lease(self, wall_s: float) -> Unstructured:
        """The lease with this candidate as holder."""
        now = time_formats.format_micro_time(wall_s)
        before = _spec(self._lease)
        spec = {
            **before,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._settings.lease_s,
            "renewTime": now,
        }
        if self.holder != self.identity:
            spec["acquireTime"] = now
            before_us = _read_count(self._lease, "leaseTransitions", _MOST_TRANSITIONS)
            spec["leaseTransitions"] = before_us + (self._lease is not None)
        return self._with(spec)

    def build_released_lease(self, wall_s: float) -> Unstructured:
        """The lease without holder, so that others may acquire it at once."""
        now = time_formats.format_micro_time(wall_s)
        before = _spec(self._lease)
        return self._with({**before, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now})

    def record_write(self, lease: Unstructured, begun_s: float) -> None:
        """Record a successful write. Leadership counts from `begun_s`, the beginning of the request."""
        self._lease = lease
        self._seen_at_s = begun_s
        self._leads_until_s = begun_s + self._settings.renew_deadline_s if self.holder == self.identity else None

    def step_down(self) -> None:
        """Stop leading before the lease is released, so that leadership never overlaps."""
        self._leads_until_s = None

    def _with(self, spec: dict[str, Any]) -> Unstructured:
        if self._lease is None:
            return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": self._where, "spec": spec}
        return {**self._lease, "spec": spec}

    @property
    def exists(self) -> bool:
        return self._lease is not None


class LeaderElector:
    """Acquires and renews the lease, and runs a task while it leads."""

    def __init__(
        self,
        api: client.Client,
        namespace: str,
        name: str,
        identity: str,
        settings: LeaderElectionSettings | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._clock = api.clock
        self._namespace, self._name = namespace, name
        self._settings = settings or LeaderElectionSettings()
        self._attempt_s = max(self._settings.renew_deadline_s / 2.0, _ATTEMPT_S)
        """Timeout of one attempt, so that a hanging connection fails one attempt and not the lease, as in
        controller-runtime."""
        self._client = api.without_retries(self._attempt_s)
        self._failure = ""
        """Error of the last attempt; empty if it succeeded."""
        self._rng = rng or api.rng
        self._candidate = LeaseCandidate(namespace, name, identity, self._settings)

    @property
    def is_leader(self) -> bool:
        """True while this process leads. Check right before each action that requires leadership."""
        return self._leads()

    @property
    def holder(self) -> str:
        """The last observed leader."""
        return self._candidate.holder

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Acquire the lease, run `lead` until it returns, then release the lease.

        LeadershipLost, with `lead` cancelled, if the lease is not renewed in time. It is raised within `end_s` even if
        `lead` does not end; the caller then exits the process (`shutdown.execute`).
        """
        await self._acquire()
        _log.info("acquired lease: lease=%s/%s holder=%s", self._namespace, self._name, self._candidate.identity)
        leading = asyncio.ensure_future(lead())
        renewing = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait((leading, renewing), return_when=asyncio.FIRST_COMPLETED)
            if not leading.done():
                raise LeadershipLost(self._describe_loss())
            leading.result()
        finally:
            # Renew during the cleanup: its last writes still need leadership.
            leading.cancel()
            await self._wait_ended(leading)
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            await self._release()

    async def _wait_ended(self, leading: "asyncio.Future[None]") -> None:
        sleeping = asyncio.ensure_future(self._clock.sleep(self._settings.end_s))
        try:
            await asyncio.wait((leading, sleeping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
        if not leading.done():
            _log.error("leader did not stop after it was cancelled: timeout_s=%g", self._settings.end_s)
        elif not leading.cancelled():
            leading.exception()

    def _describe_loss(self) -> str:
        where = f"lease {self._namespace}/{self._name}"
        if self.holder != self._candidate.identity:
            return f"{where} lost: holder is {self.holder or 'unset'}"
        return f"{where} not renewed in time{self._failure and ': '}{self._failure}"

    def _leads(self) -> bool:
        return self._candidate.leads(self._clock.monotonic_s())

    async def _acquire(self) -> None:
        while True:
            attempt = asyncio.ensure_future(self._try_acquire_or_renew(self._settings.renew_deadline_s))
            try:
                await asyncio.shield(attempt)
            except asyncio.CancelledError:
                await self._give_up(attempt)
                raise
            if self._leads():
                return
            await self._clock.sleep(self._settings.retry_s * (1.0 + _JITTER * self._rng.random()))

    async def _give_up(self, attempt: "asyncio.Future[None]") -> None:
        """Finish or cancel an attempt in flight, which might acquire the lease, then release the lease."""
        with contextlib.suppress(TimeoutError):
            await clock.run_with_timeout(self._clock, _RELEASE_S, _wait_done(attempt))
        attempt.cancel()
        await asyncio.gather(attempt, return_exceptions=True)
        await self._release()

    async def _renew(self) -> None:
        """Renew until leadership is lost.

        A lost lease is not acquired again: another process may have led meanwhile.
        """
        while self._leads():
            left_s = self._candidate.leads_until_s - self._clock.monotonic_s()
            # After failures, shorten the interval: each attempt gets as much time as the pause before it.
            most_s = left_s / 2.0 if left_s > _ATTEMPT_S else left_s
            await self._clock.sleep(min(self._settings.retry_s, most_s))
            if self._leads():
                await self._try_acquire_or_renew(self._candidate.leads_until_s - self._clock.monotonic_s())

    async def _try_acquire_or_renew(self, seconds: float) -> None:
        """Acquire or renew the lease if allowed; errors are logged.

        A malformed response counts as a failed attempt: leadership lasts until the deadline.
        """
        try:
            await clock.run_with_timeout(self._clock, min(seconds, self._attempt_s), self._read_and_write())
            self._failure = ""
        except Exception as error:
            is_unexpected = not isinstance(error, errors.WindlassError | TimeoutError)
            self._failure = str(error) or repr(error)
            _log.warning(
                "failed to acquire or renew lease: lease=%s/%s error=%s",
                self._namespace, self._name, self._failure, exc_info=is_unexpected,
            )  # fmt: skip

    async def _read_and_write(self) -> None:
        if not self._leads():
            await self._read_lease()
        if self._candidate.may_write(self._clock.monotonic_s()):
            await self._write(self._candidate.build_lease)

    async def _write(self, compose: Callable[[float], Unstructured]) -> None:
        try:
            await self._put_lease(compose(self._clock.now_s()))
        except (kube_errors.Conflict, kube_errors.NotFound):
            # Another writer changed the lease, or our own write succeeded without a response, or the lease was deleted.
            await self._read_lease()
            if self._candidate.may_restore(self._clock.monotonic_s()):
                await self._put_lease(compose(self._clock.now_s()))

    async def _read_lease(self) -> None:
        try:
            lease = _check_lease(await self._client.get(_LEASES, self._name, self._namespace), "GET")
        except kube_errors.NotFound:
            lease = None
        self._candidate.observe(lease, self._clock.monotonic_s())

    async def _put_lease(self, lease: Unstructured) -> None:
        begun_s = self._clock.monotonic_s()
        if self._candidate.exists:
            written = await self._client.update(_LEASES, lease)
        else:
            written = await self._client.create(_LEASES, lease)
        if _spec(_check_lease(written, "PUT")).get("holderIdentity") != lease["spec"]["holderIdentity"]:
            raise kube_errors.InvalidResponse("PUT lease", "the answer is not the lease that was sent")
        self._candidate.record_write(written, begun_s)

    async def _release(self) -> None:
        if not self._leads():
            return
        self._candidate.step_down()
        with contextlib.suppress(errors.WindlassError, TimeoutError):
            await clock.run_with_timeout(self._clock, _RELEASE_S, self._write(self._candidate.build_released_lease))


async def _wait_done(task: "asyncio.Future[None]") -> None:
    await asyncio.wait((task,))


def make_identity() -> str:
    """A unique identity: host name and a random UUID, as in client-go."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def _check_lease(lease: Unstructured, verb: str) -> Unstructured:
    """The lease of a response. InvalidResponse for a body without resourceVersion, such as a proxy's error page."""
    metadata = lease.get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    if not (isinstance(version, str) and version):
        raise kube_errors.InvalidResponse(f"{verb} lease", f"no lease: {lease!r:.200}")
    return lease


def _find_holder(lease: Unstructured) -> str:
    if not isinstance(lease.get("spec") or {}, dict):
        return _UNKNOWN_HOLDER
    holder = _spec(lease).get("holderIdentity") or ""
    return holder if isinstance(holder, str) else _UNKNOWN_HOLDER


def _read_count(lease: Unstructured | None, field: str, most: int) -> int:
    """An integer field of the lease, clamped; 0 if it is missing or malformed."""
    found = _spec(lease).get(field)
    return min(max(found, 0), most) if type(found) is int else 0


def _spec(lease: Unstructured | None) -> dict[str, Any]:
    spec = (lease or {}).get("spec")
    return spec if isinstance(spec, dict) else {}


def _version(lease: Unstructured) -> str:
    return str(lease["metadata"].get("resourceVersion"))


_READS = ("GET", "HEAD")


class FencedTransport:
    """A transport that rejects writes unless `may_act` returns True."""

    def __init__(self, inner: transport.Transport, may_act: Callable[[], bool]) -> None:
        self._inner, self._may_act = inner, may_act

    async def send(self, request: transport.Request) -> transport.Response:
        if request.method not in _READS:
            request = dataclasses.replace(request, may_send=self._may_act)
            request.check_may_send()
        return await self._inner.send(request)


def fence_writes(server: transport.Transport, election: LeaderElector | None) -> transport.Transport:
    """A transport that rejects writes while this process does not lead; without leader election the given one."""
    return server if election is None else FencedTransport(server, lambda: election.is_leader)
