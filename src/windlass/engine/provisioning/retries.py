"""Retries: a request for which there was no room is tried again later, each time after twice as long."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.engine.provisioning import conditions
from windlass.engine.provisioning.request import Request
from windlass.engine.settings import ProvisioningRequests


@dataclass(frozen=True, slots=True)
class Memory:
    """What one loop tells the next of requests, besides what stands in them."""

    delays: Mapping[str, float] = field(default_factory=dict)
    """By uid: how long to wait after the last try. Those not heard of for longest come first."""
    is_next: bool = False
    """Is it the requests' turn, should there be ordinary pods to help as well?"""


class Retries:
    """The delays of one loop."""

    def __init__(self, known: Mapping[str, float], settings: ProvisioningRequests) -> None:
        self.delays = dict(known)
        self._settings = settings

    def is_due(self, request: Request, now_s: float) -> bool:
        """Is it to be tried now? If so, and it was tried before, the next wait is twice as long."""
        tried = conditions.find(request.conditions, conditions.PROVISIONED)
        if not self.is_open(request):
            if tried is None or tried.status == conditions.TRUE or conditions.is_true(request, conditions.FAILED):
                self.delays.pop(request.uid, None)
            return False
        if tried is None:
            return True
        delay_s = self._look_up(request.uid)
        if tried.since_s + delay_s >= now_s:
            return False
        self._note(request.uid, min(2 * delay_s, self._settings.provisioning_request_max_backoff_time_s))
        return True

    def is_open(self, request: Request) -> bool:
        """Is no answer final? One that nobody can read (Unknown) is left to whoever gave it."""
        tried = conditions.find(request.conditions, conditions.PROVISIONED)
        return not conditions.is_true(request, conditions.FAILED) and (
            tried is None or tried.status == conditions.FALSE
        )

    def due_at_s(self, request: Request) -> float:
        """When a request that is not answered yet may be tried; before all time if nothing is waited for."""
        tried = conditions.find(request.conditions, conditions.PROVISIONED)
        first_s = self._settings.provisioning_request_initial_backoff_time_s
        return float("-inf") if tried is None else tried.since_s + self.delays.get(request.uid, first_s)

    def _look_up(self, uid: str) -> float:
        if uid not in self.delays:
            return self._settings.provisioning_request_initial_backoff_time_s
        self.delays[uid] = self.delays.pop(uid)  # heard of lately
        return self.delays[uid]

    def _note(self, uid: str, delay_s: float) -> None:
        self.delays.pop(uid, None)
        self.delays[uid] = delay_s
        size = self._settings.provisioning_request_max_backoff_cache_size
        while 0 < size < len(self.delays):
            del self.delays[next(iter(self.delays))]
