"""Conditions of requests: what each says, and what follows from it. Reasons and messages are the peer's.

    type            status  reason                          when
    Accepted        True    Accepted                        it was picked to be tried
    Provisioned     True    CapacityIsFound                 there is room for all its pods now
                            CapacityIsProvisioned           nodes were asked for that have room for all
                    False   CapacityIsNotFound              neither; it is tried again later
    Failed          True    CapacityIsNotFound              the same, and it wants no second try
                            FailedToCreatePods              its pods cannot be made
                            FailedToBookCapacity            they cannot be made any more
                            Expired                         it found no capacity for a week
    BookingExpired  True    CapacityReservationTimeExpired  its room was kept for ten minutes
                            CapacityBookingConsumed         its pods are there

CapacityRevoked belongs to the API; nobody sets it here, and one that is there is left as it is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from windlass.engine.provisioning import classes
from windlass.engine.provisioning.request import Condition, Request

ACCEPTED = "Accepted"
PROVISIONED = "Provisioned"
FAILED = "Failed"
BOOKING_EXPIRED = "BookingExpired"

TRUE, FALSE = "True", "False"


@dataclass(frozen=True, slots=True)
class Saying:
    """A condition to be set."""

    type: str
    status: str
    reason: str
    message: str


IS_ACCEPTED = Saying(ACCEPTED, TRUE, "Accepted", "ProvisioningRequest is accepted by ClusterAutoscaler")
FOUND = Saying(PROVISIONED, TRUE, "CapacityIsFound", "Capacity is found in the cluster")
ORDERED = Saying(PROVISIONED, TRUE, "CapacityIsProvisioned", "Capacity is found in the cluster")
NOT_FOUND = Saying(PROVISIONED, FALSE, "CapacityIsNotFound", "Capacity is not found, CA will try to find it later.")
NOT_FOUND_AT_ALL = Saying(FAILED, TRUE, "CapacityIsNotFound", "CA could not find requested capacity")
EXPIRED = Saying(FAILED, TRUE, "Expired", "ProvisioningRequest is expired")
TIME_IS_UP = Saying(BOOKING_EXPIRED, TRUE, "CapacityReservationTimeExpired", "Capacity reservation time is expired")
CONSUMED = Saying(BOOKING_EXPIRED, TRUE, "CapacityBookingConsumed", "Capacity booking consumed: all pods scheduled")


def cannot_make_pods(fault: str) -> Saying:
    return Saying(FAILED, TRUE, "FailedToCreatePods", fault)


def cannot_book(fault: str) -> Saying:
    return Saying(FAILED, TRUE, "FailedToBookCapacity", f"Couldn't create pods, err: {fault}")


def find(conditions: Sequence[Condition], condition_type: str) -> Condition | None:
    return next((one for one in conditions if one.type == condition_type), None)


def is_true(request: Request, condition_type: str) -> bool:
    found = find(request.conditions, condition_type)
    return found is not None and found.status == TRUE


def put(request: Request, saying: Saying, now_s: float, *, generation: bool = True) -> Request:
    """The request with this said of it, in place of what was said before. The API counts whole seconds.

    As with the peer, it is said anew: since now, even if it was so before. `generation`: say of which one.
    """
    seen = request.generation if generation else None
    new = Condition(saying.type, saying.status, saying.reason, saying.message, float(math.floor(now_s)), seen)
    if find(request.conditions, saying.type) is None:
        return replace(request, conditions=(*request.conditions, new))
    kept = tuple(new if one.type == saying.type else one for one in request.conditions)
    return replace(request, conditions=kept)


def is_booked(request: Request, instance: str) -> bool:
    """Is room to be kept for it?"""
    if not classes.is_ours(request, instance) or is_true(request, FAILED) or is_true(request, BOOKING_EXPIRED):
        return False
    return is_true(request, PROVISIONED)
