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
"""Candidates that wait ask after `retry_s` and up to this much of it more, lest they all ask at once."""

_ATTEMPT_S = 1.0
"""The least that an attempt to renew has."""

_RELEASE_S = 1.0
"""For giving the lease up. Without that the others wait until it has run out."""

_LONGEST_LEASE_S = 900
"""No lease is waited for longer, whatever it says: anyone who may edit it could keep all others waiting for ever."""

_MOST_TRANSITIONS = 2**31 - 2

_UNKNOWN_HOLDER = "(unreadable)"
"""Of a lease that says nonsense: whoever held it before may still lead, and writes it anew; others wait."""

_log = logging.getLogger(__name__)


class LeadershipLost(errors.WindlassError):
    """The lease could not be renewed in time. Someone else may lead now."""


@dataclass(frozen=True, slots=True)
class LeaderElectionSettings:
    """How long leadership lasts. `lease_s` > `renew_deadline_s` > `retry_s`."""

    lease_s: int = 15
    """How long others wait after the last renewal they saw."""
    renew_deadline_s: float = 10.0
    """How long the leader leads after its last renewal."""
    retry_s: float = 2.0
    """How often the leader renews, and the others look."""
    end_s: float = 2.5
    """For the leader to put things in order once it is cancelled. One that takes longer, such as a thread that does
    not end, is left behind: it does not lead any more, and nothing that it sends passes the fence."""

    def __post_init__(self) -> None:
        if not self.lease_s > self.renew_deadline_s > self.retry_s * _JITTER > 0:
            raise errors.InvalidInput(
                f"leader election: lease duration {self.lease_s} s, renew deadline {self.renew_deadline_s:g} s, "
                f"retry period {self.retry_s:g} s: each must be longer than the next, the deadline longer than "
                f"{_JITTER:g} retry periods"
            )


class LeaseCandidate:
    """What a candidate knows, and what it would write. No I/O."""

    def __init__(self, namespace: str, name: str, identity: str, settings: LeaderElectionSettings) -> None:
        self.identity = identity
        self._settings = settings
        self._where = {"namespace": namespace, "name": name}
        self._lease: Unstructured | None = None
        self._seen_at_s = 0.0
        self._free_at_s = -math.inf
        """When a lease that was deleted would have run out: its holder may not know of it before."""
        self._leads_until_s: float | None = None

    @property
    def holder(self) -> str:
        """Who holds the lease, as far as this candidate knows."""
        return "" if self._lease is None else _find_holder(self._lease)

    def leads(self, now_s: float) -> bool:
        return self._leads_until_s is not None and now_s < self._leads_until_s

    @property
    def leads_until_s(self) -> float:
        return self._leads_until_s or 0.0

    def observe(self, lease: Unstructured | None, now_s: float) -> None:
        """The lease as the server has it; None: there is none."""
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
        """Is the lease ours, gone, or edited by someone who does not lead, while we do?"""
        return self._lease is None or self.holder == self.identity or (self._is_free_or_own and self.leads(now_s))

    def may_write(self, now_s: float) -> bool:
        """The lease is ours, free, or has not changed for as long as it lasts."""
        if self._lease is None:
            return now_s >= self._free_at_s
        is_ours = self.holder in ("", self.identity) or self.may_restore(now_s)
        return is_ours or now_s >= self._expires_at_s()

    def _expires_at_s(self) -> float:
        """Never sooner than our own lease would: its holder may not have seen what others wrote into it."""
        least_s = self._settings.lease_s
        lasts_s = _read_count(self._lease, "leaseDurationSeconds", max(_LONGEST_LEASE_S, least_s))
        return self._seen_at_s + max(lasts_s, least_s)

    def build_lease(self, wall_s: float) -> Unstructured:
        """The lease with us as its holder."""
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
        """The lease with nobody as its holder, free for anyone at once."""
        now = time_formats.format_micro_time(wall_s)
        before = _spec(self._lease)
        return self._with({**before, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now})

    def record_write(self, lease: Unstructured, begun_s: float) -> None:
        """The server took what we composed; `begun_s` is when we began to send it."""
        self._lease = lease
        self._seen_at_s = begun_s
        self._leads_until_s = begun_s + self._settings.renew_deadline_s if self.holder == self.identity else None

    def step_down(self) -> None:
        """We no longer lead, whatever the server has: before the lease is given up, not after."""
        self._leads_until_s = None

    def _with(self, spec: dict[str, Any]) -> Unstructured:
        if self._lease is None:
            return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": self._where, "spec": spec}
        return {**self._lease, "spec": spec}

    @property
    def exists(self) -> bool:
        return self._lease is not None


class LeaderElector:
    """Stands for election, and leads if elected."""

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
        """For one attempt: a connection that hangs costs one, and not the lease. As controller-runtime has it."""
        self._client = api.without_retries(self._attempt_s)
        self._failure = ""
        """Of the last attempt; empty if it succeeded."""
        self._rng = rng or api.rng
        self._candidate = LeaseCandidate(namespace, name, identity, self._settings)

    @property
    def is_leader(self) -> bool:
        """Whether we lead, at this very moment. Ask right before doing what only a leader may."""
        return self._leads()

    @property
    def holder(self) -> str:
        """Who leads, as far as we know."""
        return self._candidate.holder

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait to be elected, then lead until `lead` returns; the lease is released in the end.

        LeadershipLost, with `lead` cancelled, if the lease cannot be renewed in time. It ends within a few seconds
        then, whatever `lead` does: whoever calls it ends the process (`shutdown.execute`).
        """
        await self._acquire()
        _log.info("%s leads (%s/%s)", self._candidate.identity, self._namespace, self._name)
        leading = asyncio.ensure_future(lead())
        renewing = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait((leading, renewing), return_when=asyncio.FIRST_COMPLETED)
            if not leading.done():
                raise LeadershipLost(self._describe_loss())
            leading.result()
        finally:
            # Renewed until the last: whoever ends may take a while to put things in order.
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
            _log.error("the leader did not end within %g s of being cancelled: left behind", self._settings.end_s)
        elif not leading.cancelled():
            leading.exception()

    def _describe_loss(self) -> str:
        where = f"lease {self._namespace}/{self._name}"
        if self.holder != self._candidate.identity:
            return f"{where} lost: {self.holder or 'nobody'} holds it"
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
        """End an attempt that is not wanted any more: what is on its way may take the lease, and would hold it."""
        with contextlib.suppress(TimeoutError):
            await clock.run_with_timeout(self._clock, _RELEASE_S, _wait_done(attempt))
        attempt.cancel()
        await asyncio.gather(attempt, return_exceptions=True)
        await self._release()

    async def _renew(self) -> None:
        """Returns when we no longer lead, even if the lease could be had again: others may have led meanwhile."""
        while self._leads():
            left_s = self._candidate.leads_until_s - self._clock.monotonic_s()
            # Late, the last attempt has as much time as the pause before it.
            most_s = left_s / 2.0 if left_s > _ATTEMPT_S else left_s
            await self._clock.sleep(min(self._settings.retry_s, most_s))
            if self._leads():
                await self._try_acquire_or_renew(self._candidate.leads_until_s - self._clock.monotonic_s())

    async def _try_acquire_or_renew(self, seconds: float) -> None:
        """Take or renew the lease, if we may. Failures are logged; what we know afterwards says whether we lead.

        No answer, however senseless, is more than a failed attempt: the lease is ours until it has run out.
        """
        try:
            await clock.run_with_timeout(self._clock, min(seconds, self._attempt_s), self._read_and_write())
            self._failure = ""
        except Exception as error:
            is_unforeseen = not isinstance(error, errors.WindlassError | TimeoutError)
            self._failure = str(error) or repr(error)
            _log.warning(
                "failed to acquire or renew lease: lease=%s/%s: %s",
                self._namespace, self._name, self._failure, exc_info=is_unforeseen,
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
            # Someone else wrote it; or we did, and did not hear of it; or someone deleted it, and we make it again.
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
    """A name that no other process has: neither on another machine, nor one that ran here before."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def _check_lease(lease: Unstructured, verb: str) -> Unstructured:
    """The lease, if it is one; InvalidAnswer for what no API server says, such as the page of a proxy."""
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
    """A count of the lease, within bounds; 0 if it is none."""
    found = _spec(lease).get(field)
    return min(max(found, 0), most) if type(found) is int else 0


def _spec(lease: Unstructured | None) -> dict[str, Any]:
    spec = (lease or {}).get("spec")
    return spec if isinstance(spec, dict) else {}


def _version(lease: Unstructured) -> str:
    return str(lease["metadata"].get("resourceVersion"))


_READS = ("GET", "HEAD")


class FencedTransport:
    """Carries reads always, and writes while one may act."""

    def __init__(self, inner: transport.Transport, may_act: Callable[[], bool]) -> None:
        self._inner, self._may_act = inner, may_act

    async def send(self, request: transport.Request) -> transport.Response:
        if request.method not in _READS:
            request = dataclasses.replace(request, may_send=self._may_act)
            request.check_may_send()
        return await self._inner.send(request)


def fence_writes(server: transport.Transport, election: LeaderElector | None) -> transport.Transport:
    """A server to which one who stands for election writes only while leading; None: nobody else could write."""
    return server if election is None else FencedTransport(server, lambda: election.is_leader)
