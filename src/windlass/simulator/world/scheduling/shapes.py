"""Shapes: pods that no filter and no score can tell apart, but for their labels, are asked about once."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from windlass.simulator.scheduler import affinity, interpod, ports, queue, requests, spread
from windlass.simulator.scheduler.cluster import priority_of
from windlass.simulator.scheduler.spread import Constraint
from windlass.simulator.world import daemon_sets
from windlass.simulator.world.remembering import Remembered

Json = dict[str, Any]

_SEEN = (
    "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "priority", "preemptionPolicy",
    "containers", "initContainers", "overhead", "resources", "hostNetwork", "hostUsers", "volumes", "nodeName",
)  # fmt: skip
"""What filters and scores see of a spec."""

FindSelector = Callable[[Json], Json | None]
"""Which pods the default spread constraints of a pod count; None: it has no such constraints."""


@dataclass(slots=True, eq=False)
class Shape:
    """All that filters and scores see of a pod but its labels; `example` is the first pod seen."""

    example: Json
    amounts: requests.Amounts
    priority: int
    spread: list[Constraint]
    together: list[interpod.Term]
    apart: list[interpod.Term]
    soft_spread: list[Constraint]
    preferred_terms: list[tuple[interpod.Term, int]]
    """Preferred affinity to other pods, and weights; negative: anti-affinity."""
    scored_terms: list[tuple[interpod.Term, int]]
    """Terms by which such a pod, once it runs, draws others or keeps them away."""
    has_preferred_nodes: bool
    nonzero_wanted: npt.NDArray[np.int64]
    """(2,): CPU and memory as scores count them while it waits: containers that request none count with a default."""
    nonzero_taken: npt.NDArray[np.int64]
    """(2,): the same once it runs."""
    ports: list[ports.HostPort]
    names_nodes: bool
    """May the verdict differ between nodes that differ by their name only?"""
    number: int = 0
    wanted: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """(resources,): what the pod asks for, by column."""

    @property
    def is_plain(self) -> bool:
        """Do other pods matter only by what they take?"""
        return not (self.spread or self.together or self.apart)


@dataclass(frozen=True, slots=True)
class Seen:
    """A pod as the loop sees it."""

    shape: Shape
    pinned: str
    """The only node it may go to, as daemon pods have it; empty: any."""


def no_selector(pod: Json) -> Json | None:
    """For shapes that are not scored."""
    return None


class Shapes:
    """Shapes by what they are made of."""

    def __init__(self, find_selector: FindSelector = no_selector) -> None:
        self._find_selector = find_selector
        self._by_key: dict[bytes, Shape] = {}
        self._by_spec: Remembered[Seen] = Remembered()

    def see(self, pod: Json) -> Seen:
        spec = pod["spec"]
        # Pods of one owner share their spec until they are bound.
        seen = self._by_spec.find(spec)
        if seen is None:
            seen = self._intern(pod)
            if not seen.pinned:
                self._by_spec.keep(spec, seen)
        return seen

    def _intern(self, pod: Json) -> Seen:
        pinned = daemon_sets.pinned_to(pod)
        if pinned:
            pod = {**pod, "spec": {**pod["spec"], "affinity": _without_node_affinity(pod["spec"]["affinity"])}}
        # A pinned pod is not scored.
        selector = None if pinned or spread.has_own_constraints(pod) else self._find_selector(pod)
        key = _key_of(pod, selector)
        shape = self._by_key.get(key)
        if shape is None:
            shape = self._by_key[key] = _make(pod, selector)
            shape.number = len(self._by_key)
        return Seen(shape, pinned)


def _without_node_affinity(affinity: Json) -> Json:
    return {name: value for name, value in affinity.items() if name != "nodeAffinity"}


def _key_of(pod: Json, selector: Json | None) -> bytes:
    spec = pod["spec"]
    seen = [spec.get(name) for name in _SEEN]
    # Terms and selectors without a namespace mean the pod's own.
    has_place = selector or spec.get("affinity") or spec.get("topologySpreadConstraints")
    place = pod["metadata"]["namespace"] if has_place else ""
    return msgspec.json.encode((place, _own_labels(pod), selector, seen), order="deterministic")


def _own_labels(pod: Json) -> Json | None:
    """Whether a pod counts for its own constraints depends on its labels."""
    spec = pod["spec"]
    if not spec.get("topologySpreadConstraints") and not (spec.get("affinity") or {}).get("podAffinity"):
        return None
    labels: Json | None = pod["metadata"].get("labels")
    return labels


def _make(pod: Json, selector: Json | None) -> Shape:
    spec = pod["spec"]
    amounts = requests.of_pending(pod)
    text = msgspec.json.encode([spec.get("affinity"), spec.get("nodeSelector")])
    return Shape(
        pod,
        amounts,
        priority_of(pod),
        spread.hard_constraints(pod),
        interpod.terms_of(pod, "podAffinity"),
        interpod.terms_of(pod, "podAntiAffinity"),
        spread.soft_constraints(pod, selector),
        interpod.preferred_terms(pod),
        interpod.scored_terms(pod),
        bool(affinity.preferred_of(pod)),
        _cpu_and_memory(requests.nonzero_of_pending(pod)),
        _cpu_and_memory(requests.nonzero_of_seated(pod, amounts)),
        ports.host_ports(pod),
        b"metadata.name" in text or b"kubernetes.io/hostname" in text,
    )


def _cpu_and_memory(amounts: requests.Amounts) -> npt.NDArray[np.int64]:
    return np.array([amounts["cpu"], amounts["memory"]], np.int64)


def is_waiting(pod: Json) -> bool:
    """Is it the loop's to place?"""
    return (
        not pod["spec"].get("nodeName")
        and "deletionTimestamp" not in pod["metadata"]
        and queue.is_queued(pod)
        and pod["status"].get("phase") not in ("Succeeded", "Failed")
    )
