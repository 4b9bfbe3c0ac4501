"""Check-capacity: is there room for all pods of a request, now, besides what is booked?"""

from collections.abc import Mapping, Sequence

from windlass.engine import placing, searching
from windlass.engine.estimator.limits import Budget
from windlass.engine.provisioning import conditions, refusing
from windlass.engine.provisioning.docket import Docket, imagine
from windlass.engine.provisioning.request import Request
from windlass.engine.scale_up.proposing import Result
from windlass.engine.settings import Settings
from windlass.engine.snapshot import Snapshot

NO_RETRY = "noRetry"
"""Parameter: `true` if a request that finds no room has failed for good."""


def check(
    docket: Docket,
    snapshot: Snapshot,
    requests: Sequence[Request],
    imagined: Mapping[str, Sequence[int]],
    search: searching.Search,
    settings: Settings,
    time: Budget,
) -> Result:
    """Answer these requests, each on top of those before that found room; the first one in any case.

    `imagined`: rows of pods, by request, where they are in the snapshot already.
    """
    placer, result = placing.Placer(snapshot, settings.filters), Result.NO_OPTIONS
    for request in requests:
        docket.say(request, conditions.IS_ACCEPTED)
        why_not = _find_room(docket, placer, request, imagined.get(request.key), search, len(requests) == 1)
        if why_not is None:
            docket.say(request, conditions.FOUND)
            result = Result.SUCCESSFUL
        elif request.parameters.get(NO_RETRY) == "true":
            docket.say(request, refusing.add(conditions.NOT_FOUND_AT_ALL, why_not))
        else:
            docket.say(request, refusing.add(conditions.NOT_FOUND, why_not))
        if time.exhausted():
            break
    return result


def _find_room(
    docket: Docket,
    placer: placing.Placer,
    request: Request,
    imagined: Sequence[int] | None,
    search: searching.Search,
    is_alone: bool,
) -> str | None:
    """Put all its pods on nodes, or none: then why. Of one among many that would take too long to find out."""
    snapshot = placer.snapshot
    snapshot.fork()
    rows = imagine(snapshot, request) if imagined is None else imagined
    found = searching.find_places(placer, rows, search, snapshot.nodes.alive.copy(), all_or_nothing=True)
    if found.failed:
        why = refusing.explain_nodes(snapshot, found, rows, placer.config) if docket.says_why and is_alone else ""
        snapshot.revert()
        return why
    docket.note_places(snapshot, rows)
    snapshot.commit()
    return None
