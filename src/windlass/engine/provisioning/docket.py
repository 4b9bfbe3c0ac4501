"""The docket: the requests of one loop, as it changes them, and what it did about them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from windlass.engine import plan
from windlass.engine.provisioning import aging, classes, conditions, retries
from windlass.engine.provisioning.request import Request
from windlass.engine.settings import Settings
from windlass.engine.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Dealings:
    """What a loop did about requests, by their keys."""

    picked: str = ""
    """The request that was to be served, should it be the requests' turn."""
    booked: Mapping[str, int] = field(default_factory=dict)
    """Pods that room is kept for, of those that should have it."""
    answered: Mapping[str, str] = field(default_factory=dict)
    """The reason that was given."""
    helped: Mapping[str, int] = field(default_factory=dict)
    """Pods that triggered a scale-up, and those that no group takes."""
    remaining: Mapping[str, int] = field(default_factory=dict)
    ignored: tuple[int, ...] = ()
    """Rows of pending pods that trigger nothing, because they use what a request asked for."""


NOTHING = Dealings()


class Docket:
    """Requests in the order in which they are served: first come, first served. The peer has no order."""

    def __init__(self, found: Iterable[Request], known: retries.Memory, settings: Settings, now_s: float) -> None:
        chosen = settings.provisioning_requests
        enabled = found if chosen.enable_provisioning_requests else ()
        self._before = {one.key: one for one in sorted(enabled, key=lambda one: (one.created_s, one.key))}
        self._current = dict(self._before)
        self._settings, self._chosen, self._now_s = settings, chosen, now_s
        self._known, self._answered = known, dict[str, str]()
        self.instance = chosen.check_capacity_processor_instance
        self._grace_s = settings.deviations.pod_template_grace_s
        self.fails_empty = settings.deviations.fail_empty_requests
        self.says_why = settings.deviations.say_why_not_found
        self.retries = retries.Retries(known.delays, chosen)
        self.is_next = known.is_next
        self.places: dict[str, str] = {}
        """By uid of its pod: the node on which there is room that was found in this loop."""
        self.picked = ""
        self.ordering = ""
        """The request that nodes are asked for, until it is known what came of it."""
        self.booked: Mapping[str, int] = {}
        self.helped: Counter[str] = Counter()
        self.remaining: Counter[str] = Counter()
        self.ignored: tuple[int, ...] = ()

    def __iter__(self) -> Iterator[Request]:
        """As they are now; those that were deleted are gone."""
        return iter(tuple(self._current.values()))

    def __bool__(self) -> bool:
        return bool(self._before)

    def say(self, request: Request, saying: conditions.Saying, *, generation: bool = True) -> Request:
        """Say something of a request; what is said last is what will be written."""
        said = conditions.put(self._current[request.key], saying, self._now_s, generation=generation)
        self._current[request.key] = said
        if saying is not conditions.IS_ACCEPTED:
            self._answered[request.key] = saying.reason
        return said

    def note_places(self, snapshot: Snapshot, rows: Sequence[int]) -> None:
        """Room was found for these pods where they are now: it is to be booked there."""
        if self._settings.deviations.keep_places_found:
            where, names = snapshot.pods.node_rows[list(rows)].tolist(), snapshot.nodes.names
            uids = (snapshot.pods.uids[row] for row in rows)
            self.places |= {uid: names[node] for uid, node in zip(uids, where, strict=True) if node >= 0}

    def awaits_templates(self, request: Request) -> bool:
        """Is it so young that a template that is missing may still be seen?"""
        return request.lacks_templates and self._now_s < request.created_s + self._grace_s

    def age(self) -> None:
        """End what is over: first of all in a loop."""
        for request, saying in aging.find_aged(list(self), self.instance, self._now_s):
            self.say(request, saying)
        only_ours = self._settings.deviations.leave_others_requests_alone
        for request in self:
            if aging.is_old(request, self._now_s) and (not only_ours or classes.is_ours(request, self.instance)):
                del self._current[request.key]

    def learn(self, snapshot: Snapshot) -> None:
        """Let the snapshot know the shapes of all pods that may be imagined: inside a fork it is too late."""
        for request in self:
            if not conditions.is_true(request, conditions.FAILED):
                for one in request.pod_sets:
                    if one.pod is not None:
                        snapshot.shape_of(one.pod)

    # What comes of it

    def orders(self) -> list[plan.Instruction]:
        """What is to be written, in the order of the requests."""
        found: list[plan.Instruction] = []
        for key, before in self._before.items():
            now = self._current.get(key)
            if now is None:
                found.append(plan.DeleteRequest(before.namespace, before.name, before.uid))
            elif now.conditions != before.conditions:
                found.append(plan.SetConditions(now.namespace, now.name, before.version, now.conditions))
        return found

    @property
    def memory(self) -> retries.Memory:
        """What to remember; of requests that are gone nothing."""
        present = {one.uid for one in self}
        delays = {uid: delay_s for uid, delay_s in self.retries.delays.items() if uid in present}
        return retries.Memory(delays, self.is_next)

    @property
    def dealings(self) -> Dealings:
        if not self._before and not self.ignored:
            return NOTHING
        return Dealings(self.picked, self.booked, self._answered, self.helped, self.remaining, self.ignored)

    def changes_at_s(self) -> Iterator[float]:
        """When time alone changes what is said of a request."""
        for request in self:
            if aging.is_old(request, self._now_s):
                continue
            yield from (one.since_s + aging.KEPT_S for one in request.conditions)
            if classes.is_ours(request, self.instance):
                yield aging.ends_at_s(request)
                yield request.created_s + aging.EXPIRATION_S
                yield request.created_s + self._grace_s
                if self.retries.is_open(request):  # if it is due already, it is the next loop's
                    yield max(self.retries.due_at_s(request), self._now_s)


def name_pods(request: Request) -> Iterator[tuple[int, list[str]]]:
    """The names of the request's pods, by the number of their pod set."""
    for number, one in enumerate(request.pod_sets):
        yield number, [f"{request.name}-{number}-{place}" for place in range(one.count)]


def imagine(snapshot: Snapshot, request: Request, count: int | None = None) -> list[int]:
    """Append the request's pods, the first `count` of them, to the snapshot's fork; return their rows."""
    rows: list[int] = []
    for number, names in name_pods(request):
        pod = request.pod_sets[number].pod
        assert pod is not None, "a request whose pods cannot be made is not served"
        wanted = names if count is None else names[: max(count - len(rows), 0)]
        rows += snapshot.append_pods(pod, wanted)
    return rows


def count_by_request(snapshot: Snapshot, rows: Sequence[int]) -> Counter[str]:
    """How many of these imagined pods are whose."""
    table = snapshot.pods
    kinds = (table.kind(row) for row in rows)
    mine = ((kind.namespace, kind.owner) for kind in kinds if kind.owner is not None)
    return Counter(f"{namespace}/{owner.name}" for namespace, owner in mine if owner.kind == "ProvisioningRequest")
