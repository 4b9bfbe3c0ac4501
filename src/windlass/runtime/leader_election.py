"""Leader election on a Lease: of many candidates, one leads, and never two.

Whoever leads renews the lease every `retry_s`, and leads until `renew_deadline_s` after the beginning of its last
renewal that succeeded. Whoever does not waits until the lease has not changed for as long as it says it lasts. Both
are measured on the own monotonic clock, from the earliest moment for the leader and from the latest for the others, so
that neither the wall clock, nor a slow answer, nor a process that stood still can make two of them:

    leader     ├─ renewal begins ─── leads ───┤ renew_deadline_s
    lease           ├─ written
    others              ├─ seen ─────────── lease_s ──────────┤ may take it

Whether one leads is a question of the moment (`is_leader`): a process that was paused finds out by asking. Clocks may
run at different speeds as long as `lease_s` by the fastest is more than `renew_deadline_s` by the slowest.
"""

import asyncio
import contextlib
import logging
import random
import socket
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from windlass import clock, errors
from windlass.kube import client, times
from windlass.kube import errors as kube_errors
from windlass.kube.resources import LEASES, Unstructured

_LEASES = LEASES.untyped()
_JITTER = 1.2
"""Candidates that wait ask after `retry_s` and up to this much of it more, lest they all ask at once."""
_RELEASE_S = 5.0

_log = logging.getLogger(__name__)


class LeadershipLost(errors.WindlassError):
    """The lease could not be renewed in time. Someone else may lead now."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How long leadership lasts. `lease_s` > `renew_deadline_s` > `retry_s`."""

    lease_s: int = 15
    """How long others wait after the last renewal they saw."""
    renew_deadline_s: float = 10.0
    """How long the leader leads after its last renewal."""
    retry_s: float = 2.0
    """How often the leader renews, and the others look."""

    def __post_init__(self) -> None:
        if not self.lease_s > self.renew_deadline_s > self.retry_s * _JITTER > 0:
            raise errors.InvalidInput(
                f"leader election: lease duration {self.lease_s} s, renew deadline {self.renew_deadline_s:g} s, "
                f"retry period {self.retry_s:g} s: each must be longer than the next, the deadline longer than "
                f"{_JITTER:g} retry periods"
            )


class Candidate:
    """What a candidate knows, and what it would write. No I/O."""

    def __init__(self, namespace: str, name: str, identity: str, settings: Settings) -> None:
        self.identity = identity
        self._settings = settings
        self._where = {"namespace": namespace, "name": name}
        self._lease: Unstructured | None = None
        self._seen_at_s = 0.0
        self._leads_until_s: float | None = None

    @property
    def holder(self) -> str:
        """Who holds the lease, as far as this candidate knows."""
        return _spec(self._lease).get("holderIdentity") or ""

    def leads(self, now_s: float) -> bool:
        return self._leads_until_s is not None and now_s < self._leads_until_s

    @property
    def leads_until_s(self) -> float:
        return self._leads_until_s or 0.0

    def see(self, lease: Unstructured | None, now_s: float) -> None:
        """The lease as the server has it; None: there is none."""
        if lease is None or self._lease is None or _version(lease) != _version(self._lease):
            self._seen_at_s = now_s
        self._lease = lease
        if self.holder != self.identity:
            self._leads_until_s = None

    def may_write(self, now_s: float) -> bool:
        """The lease is ours, free, or has not changed for as long as it lasts."""
        if self._lease is None or self.holder in ("", self.identity):
            return True
        lasts_s = _spec(self._lease).get("leaseDurationSeconds") or self._settings.lease_s
        return now_s >= self._seen_at_s + lasts_s

    def compose(self, wall_s: float) -> Unstructured:
        """The lease with us as its holder."""
        now = times.spell_micro(wall_s)
        before = _spec(self._lease)
        spec = {
            **before,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._settings.lease_s,
            "renewTime": now,
        }
        if self.holder != self.identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(before.get("leaseTransitions") or 0) + (self._lease is not None)
        return self._with(spec)

    def compose_release(self, wall_s: float) -> Unstructured:
        """The lease with nobody as its holder, free for anyone at once."""
        now = times.spell_micro(wall_s)
        before = _spec(self._lease)
        return self._with({**before, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now})

    def wrote(self, lease: Unstructured, begun_s: float) -> None:
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


class Election:
    """Stands for election, and leads if elected."""

    def __init__(
        self,
        api: client.Client,
        namespace: str,
        name: str,
        identity: str,
        settings: Settings | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._client = api
        self._clock = api.clock
        self._namespace, self._name = namespace, name
        self._settings = settings or Settings()
        self._rng = rng or api.rng
        self._candidate = Candidate(namespace, name, identity, self._settings)

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

        LeadershipLost, with `lead` cancelled, if the lease cannot be renewed in time.
        """
        await self._acquire()
        _log.info("%s leads (%s/%s)", self._candidate.identity, self._namespace, self._name)
        leading = asyncio.ensure_future(lead())
        renewing = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait((leading, renewing), return_when=asyncio.FIRST_COMPLETED)
            if not leading.done():
                raise LeadershipLost(
                    f"lease {self._namespace}/{self._name} not renewed in time; {self.holder} holds it"
                )
            leading.result()
        finally:
            # Renewed until the last: whoever ends may take a while to put things in order.
            for task in (leading, renewing):
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await self._release()

    def _leads(self) -> bool:
        return self._candidate.leads(self._clock.monotonic_s())

    async def _acquire(self) -> None:
        while True:
            await self._try(self._settings.renew_deadline_s)
            if self._leads():
                return
            await self._clock.sleep(self._settings.retry_s * (1.0 + _JITTER * self._rng.random()))

    async def _renew(self) -> None:
        """Returns when we no longer lead, even if the lease could be had again: others may have led meanwhile."""
        while self._leads():
            left_s = self._candidate.leads_until_s - self._clock.monotonic_s()
            await self._clock.sleep(min(self._settings.retry_s, left_s))
            if self._leads():
                await self._try(self._candidate.leads_until_s - self._clock.monotonic_s())

    async def _try(self, seconds: float) -> None:
        """Take or renew the lease, if we may. Failures are logged; what we know afterwards says whether we lead."""
        try:
            await clock.within(self._clock, seconds, self._look_and_write())
        except (kube_errors.KubeError, TimeoutError) as error:
            _log.warning("lease %s/%s: %s", self._namespace, self._name, error)

    async def _look_and_write(self) -> None:
        if not self._leads():
            await self._look()
        if self._candidate.may_write(self._clock.monotonic_s()):
            await self._write(self._candidate.compose)

    async def _write(self, compose: Callable[[float], Unstructured]) -> None:
        try:
            await self._send(compose(self._clock.now_s()))
        except kube_errors.Conflict:
            # Someone else wrote it; or we did, and did not hear of it.
            await self._look()
            if self.holder == self._candidate.identity:
                await self._send(compose(self._clock.now_s()))

    async def _look(self) -> None:
        try:
            lease = await self._client.get(_LEASES, self._name, self._namespace)
        except kube_errors.NotFound:
            lease = None
        self._candidate.see(lease, self._clock.monotonic_s())

    async def _send(self, lease: Unstructured) -> None:
        begun_s = self._clock.monotonic_s()
        if self._candidate.exists:
            written = await self._client.update(_LEASES, lease)
        else:
            written = await self._client.create(_LEASES, lease)
        self._candidate.wrote(written, begun_s)

    async def _release(self) -> None:
        if not self._leads():
            return
        self._candidate.step_down()
        with contextlib.suppress(kube_errors.KubeError, TimeoutError):
            await clock.within(self._clock, _RELEASE_S, self._write(self._candidate.compose_release))


def make_identity() -> str:
    """A name that no other process has: neither on another machine, nor one that ran here before."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def _spec(lease: Unstructured | None) -> dict[str, Any]:
    spec = (lease or {}).get("spec")
    return spec if isinstance(spec, dict) else {}


def _version(lease: Unstructured) -> str:
    return str(lease["metadata"].get("resourceVersion"))
