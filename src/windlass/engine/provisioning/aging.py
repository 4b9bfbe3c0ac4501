"""Aging: bookings end after ten minutes, requests that found nothing fail after a week, old ones are deleted."""

from collections.abc import Sequence

from windlass.engine.provisioning import classes, conditions
from windlass.engine.provisioning.request import Request

BOOKING_S = 600.0
"""How long room is kept for a request."""
EXPIRATION_S = 7 * 24 * 3600.0
"""How long after its creation a request without capacity is given up."""
KEPT_S = 7 * 24 * 3600.0
"""How long a request is kept after its last answer."""
AT_ONCE = 20
"""Requests that one loop may end for their age."""


def find_aged(requests: Sequence[Request], instance: str, now_s: float) -> list[tuple[Request, conditions.Saying]]:
    """The requests that are over now, and what to say of each: first bookings, then requests that found nothing."""
    ended: list[Request] = []
    given_up: list[Request] = []
    for request in requests:
        if len(ended) >= AT_ONCE:
            break
        if not classes.is_ours(request, instance) or _is_over(request):
            continue
        if conditions.is_true(request, conditions.PROVISIONED):
            if ends_at_s(request) < now_s:
                ended.append(request)
        elif len(given_up) < AT_ONCE - len(ended) and request.created_s + EXPIRATION_S < now_s:
            given_up.append(request)
    return [(one, conditions.TIME_IS_UP) for one in ended] + [(one, conditions.EXPIRED) for one in given_up]


def is_old(request: Request, now_s: float) -> bool:
    """Was it answered so long ago that nobody will look at it again? Whoever's it is, as with the peer."""
    answers = (conditions.find(request.conditions, one) for one in (conditions.PROVISIONED, conditions.FAILED))
    return any(one is not None and one.since_s + KEPT_S < now_s for one in answers)


def ends_at_s(request: Request) -> float:
    """When its booking ends; before all time if it has none."""
    found = conditions.find(request.conditions, conditions.PROVISIONED)
    return float("-inf") if found is None else found.since_s + BOOKING_S


def _is_over(request: Request) -> bool:
    return any(conditions.is_true(request, one) for one in (conditions.BOOKING_EXPIRED, conditions.FAILED))
