"""ProvisioningRequest conditions, classes, expiry and retry backoff. Reasons and messages are Cluster Autoscaler's.

    type            status  reason                          when
    Accepted        True    Accepted                        it was selected
    Provisioned     True    CapacityIsFound                 all its pods fit now
                            CapacityIsProvisioned           nodes were requested that all its pods fit on
                    False   CapacityIsNotFound              neither; retried with exponential backoff
    Failed          True    CapacityIsNotFound              the same, with noRetry
                            FailedToCreatePods              its pods cannot be created
                            FailedToBookCapacity            they cannot be created any more
                            Expired                         no capacity for a week
    BookingExpired  True    CapacityReservationTimeExpired  booked for ten minutes
                            CapacityBookingConsumed         its pods are scheduled

CapacityRevoked is never set here. An instance with a name handles the requests that name it, and no others.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from windlass.engine.model.provisioning import Condition, ProvisioningRequest
from windlass.engine.model.settings import ProvisioningRequestSettings

CHECK_CAPACITY_CLASS = "check-capacity.autoscaling.x-k8s.io"

ATOMIC_SCALE_UP_CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"

INSTANCE_PARAMETER = "processorInstance"
"""Parameter: the name of the instance that should handle a check-capacity request."""


def is_handled_by(request: ProvisioningRequest, instance: str) -> bool:
    """Is the request to be handled by the instance of this name (empty: by the one without)?"""
    if request.class_name == ATOMIC_SCALE_UP_CLASS:
        return not instance
    return is_check_capacity(request, instance)


def is_check_capacity(request: ProvisioningRequest, instance: str) -> bool:
    """Is it ours, and one that asks only whether there is room?"""
    wanted = request.parameters.get(INSTANCE_PARAMETER, "")
    if wanted or not instance:
        return wanted == instance and request.class_name == CHECK_CAPACITY_CLASS
    return request.class_name == instance + CHECK_CAPACITY_CLASS


ACCEPTED = "Accepted"

PROVISIONED = "Provisioned"

FAILED = "Failed"

BOOKING_EXPIRED = "BookingExpired"

TRUE, FALSE = "True", "False"


@dataclass(frozen=True, slots=True)
class ConditionUpdate:
    """A condition to be set."""

    type: str
    status: str
    reason: str
    message: str


IS_ACCEPTED = ConditionUpdate(ACCEPTED, TRUE, "Accepted", "ProvisioningRequest is accepted by ClusterAutoscaler")

CAPACITY_FOUND = ConditionUpdate(PROVISIONED, TRUE, "CapacityIsFound", "Capacity is found in the cluster")

CAPACITY_PROVISIONED = ConditionUpdate(PROVISIONED, TRUE, "CapacityIsProvisioned", "Capacity is found in the cluster")

CAPACITY_NOT_FOUND = ConditionUpdate(
    PROVISIONED, FALSE, "CapacityIsNotFound", "Capacity is not found, CA will try to find it later."
)

CAPACITY_NOT_FOUND_FINALLY = ConditionUpdate(FAILED, TRUE, "CapacityIsNotFound", "CA could not find requested capacity")

REQUEST_EXPIRED = ConditionUpdate(FAILED, TRUE, "Expired", "ProvisioningRequest is expired")

BOOKING_TIME_EXPIRED = ConditionUpdate(
    BOOKING_EXPIRED, TRUE, "CapacityReservationTimeExpired", "Capacity reservation time is expired"
)

BOOKING_CONSUMED = ConditionUpdate(
    BOOKING_EXPIRED, TRUE, "CapacityBookingConsumed", "Capacity booking consumed: all pods scheduled"
)


def failed_to_create_pods(fault: str) -> ConditionUpdate:
    return ConditionUpdate(FAILED, TRUE, "FailedToCreatePods", fault)


def failed_to_book_capacity(fault: str) -> ConditionUpdate:
    return ConditionUpdate(FAILED, TRUE, "FailedToBookCapacity", f"Couldn't create pods, err: {fault}")


def find_condition(conditions: Sequence[Condition], condition_type: str) -> Condition | None:
    return next((condition for condition in conditions if condition.type == condition_type), None)


def is_condition_true(request: ProvisioningRequest, condition_type: str) -> bool:
    condition = find_condition(request.conditions, condition_type)
    return condition is not None and condition.status == TRUE


def set_condition(
    request: ProvisioningRequest, update: ConditionUpdate, now_s: float, *, generation: bool = True
) -> ProvisioningRequest:
    """The request with this condition set or replaced. API times have whole seconds.

    As in Cluster Autoscaler, the transition time is always now. `generation`: set observedGeneration.
    """
    seen = request.generation if generation else None
    new = Condition(update.type, update.status, update.reason, update.message, float(math.floor(now_s)), seen)
    if find_condition(request.conditions, update.type) is None:
        return replace(request, conditions=(*request.conditions, new))
    kept = tuple(new if condition.type == update.type else condition for condition in request.conditions)
    return replace(request, conditions=kept)


def is_booked(request: ProvisioningRequest, instance: str) -> bool:
    """Is room to be kept for it?"""
    if (
        not is_handled_by(request, instance)
        or is_condition_true(request, FAILED)
        or is_condition_true(request, BOOKING_EXPIRED)
    ):
        return False
    return is_condition_true(request, PROVISIONED)


BOOKING_S = 600.0
"""How long room is kept for a request."""

EXPIRATION_S = 7 * 24 * 3600.0
"""How long after its creation a request without capacity is given up."""

RETENTION_S = 7 * 24 * 3600.0
"""How long a request is kept after its last answer."""

MAX_EXPIRED_PER_LOOP = 20
"""Requests that one loop may end for their age."""


def find_expired(
    requests: Sequence[ProvisioningRequest], instance: str, now_s: float
) -> list[tuple[ProvisioningRequest, ConditionUpdate]]:
    """The requests that expire now, with the condition of each: first bookings, then requests without capacity."""
    ended: list[ProvisioningRequest] = []
    given_up: list[ProvisioningRequest] = []
    for request in requests:
        if len(ended) >= MAX_EXPIRED_PER_LOOP:
            break
        if not is_handled_by(request, instance) or _is_over(request):
            continue
        if is_condition_true(request, PROVISIONED):
            if booking_ends_at_s(request) < now_s:
                ended.append(request)
        elif len(given_up) < MAX_EXPIRED_PER_LOOP - len(ended) and request.created_s + EXPIRATION_S < now_s:
            given_up.append(request)
    return [(provisioning_request, BOOKING_TIME_EXPIRED) for provisioning_request in ended] + [
        (one, REQUEST_EXPIRED) for one in given_up
    ]


def is_obsolete(request: ProvisioningRequest, now_s: float) -> bool:
    """Whether its last condition is older than the retention time, for any class, as in Cluster Autoscaler."""
    answers = (find_condition(request.conditions, item) for item in (PROVISIONED, FAILED))
    return any(condition is not None and condition.since_s + RETENTION_S < now_s for condition in answers)


def booking_ends_at_s(request: ProvisioningRequest) -> float:
    """When its booking ends; before all time if it has none."""
    condition = find_condition(request.conditions, PROVISIONED)
    return float("-inf") if condition is None else condition.since_s + BOOKING_S


def _is_over(request: ProvisioningRequest) -> bool:
    return any(is_condition_true(request, item) for item in (BOOKING_EXPIRED, FAILED))


class RetryBackoff:
    """The delays of one loop."""

    def __init__(self, known: Mapping[str, float], settings: ProvisioningRequestSettings) -> None:
        self.delays = dict(known)
        self._settings = settings

    def is_due(self, request: ProvisioningRequest, now_s: float) -> bool:
        """Is it to be tried now? If so, and it was tried before, the next wait is twice as long."""
        tried = find_condition(request.conditions, PROVISIONED)
        if not self.is_open(request):
            if tried is None or tried.status == TRUE or is_condition_true(request, FAILED):
                self.delays.pop(request.uid, None)
            return False
        if tried is None:
            return True
        delay_s = self._find_delay(request.uid)
        if tried.since_s + delay_s >= now_s:
            return False
        self._note(request.uid, min(2 * delay_s, self._settings.provisioning_request_max_backoff_time_s))
        return True

    def is_open(self, request: ProvisioningRequest) -> bool:
        """Whether no condition is final. A condition with status Unknown is left to its writer."""
        tried = find_condition(request.conditions, PROVISIONED)
        return not is_condition_true(request, FAILED) and (tried is None or tried.status == FALSE)

    def due_at_s(self, request: ProvisioningRequest) -> float:
        """When a request that is not answered yet may be tried; before all time if nothing is waited for."""
        tried = find_condition(request.conditions, PROVISIONED)
        first_s = self._settings.provisioning_request_initial_backoff_time_s
        return float("-inf") if tried is None else tried.since_s + self.delays.get(request.uid, first_s)

    def _find_delay(self, uid: str) -> float:
        if uid not in self.delays:
            return self._settings.provisioning_request_initial_backoff_time_s
        self.delays[uid] = self.delays.pop(uid)  # move to the end: most recently used
        return self.delays[uid]

    def _note(self, uid: str, delay_s: float) -> None:
        self.delays.pop(uid, None)
        self.delays[uid] = delay_s
        size = self._settings.provisioning_request_max_backoff_cache_size
        while 0 < size < len(self.delays):
            del self.delays[next(iter(self.delays))]
