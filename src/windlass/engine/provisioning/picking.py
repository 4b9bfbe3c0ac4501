"""Picking: which request is served next, and which together."""

from collections.abc import Sequence

from windlass.engine.provisioning import classes, conditions
from windlass.engine.provisioning.docket import Docket
from windlass.engine.provisioning.request import Request
from windlass.engine.settings import ProvisioningRequests


def pick(docket: Docket, settings: ProvisioningRequests, now_s: float) -> Request | None:
    """The next request that is due; it is accepted. Those before it whose pods cannot be made have failed.

    Check-capacity requests that are served in batches are accepted with their batch.
    """
    for request in docket:
        if not classes.is_ours(request, docket.instance) or docket.awaits_templates(request):
            continue
        if not docket.retries.is_due(request, now_s):
            continue
        if _has_failed(docket, request):
            continue
        docket.picked = request.key
        together = settings.check_capacity_batch_processing and classes.is_check_capacity(request, docket.instance)
        return request if together else docket.say(request, conditions.IS_ACCEPTED)
    return None


def is_batched(settings: ProvisioningRequests) -> bool:
    """A batch of one is none."""
    return settings.check_capacity_batch_processing and settings.check_capacity_provisioning_request_max_batch_size > 1


def pick_batch(docket: Docket, settings: ProvisioningRequests, now_s: float) -> Sequence[Request]:
    """The check-capacity requests that are due, as many as one loop serves."""
    batch: list[Request] = []
    for request in docket:
        if len(batch) >= settings.check_capacity_provisioning_request_max_batch_size:
            break
        if not classes.is_check_capacity(request, docket.instance) or docket.awaits_templates(request):
            continue
        if not docket.retries.is_due(request, now_s):
            continue
        if not _has_failed(docket, request):
            batch.append(request)
    return batch


def _has_failed(docket: Docket, request: Request) -> bool:
    """Are there no pods to ask for? Then it is told why."""
    fault = request.fault
    if not fault and docket.fails_empty and not request.pod_count:
        fault = "spec.podSets: found no pods, expected a count of 1 or more"
    if fault:
        docket.say(request, conditions.cannot_make_pods(fault))
    return bool(fault)
