"""History: a bounded buffer of samples of the cluster, by node group and by namespace of pending pods.

It answers what the cluster looked like at a time in the past. A sample that equals the one before it is not stored, so
a quiet cluster is remembered for longer. Sizes are limited in every direction: samples, groups and namespaces.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from windlass.engine.model import arrays
from windlass.engine.snapshot.node_table import CPU_COLUMN, MEMORY_COLUMN
from windlass.explain.decision_view import DecisionView
from windlass.observability import status_builder
from windlass.observability.status_model import HistorySample

MAX_HISTORY_SAMPLES = 2880
"""A day, at one sample in 30 seconds."""

HISTORY_INTERVAL_S = 30.0

MAX_HISTORY_GROUPS = 40
MAX_HISTORY_NAMESPACES = 20
"""Maximum with values of their own; all others are added up."""

GROUP_FIGURES = 6
"""Values per group in a sample: see HistorySample."""

_CORE, _GIB = 1000.0, 2.0**30
_DECIMALS = 3


@dataclass(frozen=True, slots=True)
class _StoredSample:
    """A sample as it is sent: encoded once, so that a page that opens does not hold up the loop."""

    at_s: float
    encoded: bytes
    """A HistorySample as JSON. Groups and namespaces that appear later are missing at the end."""

    def has_same_values(self, other: "_StoredSample") -> bool:
        mine, theirs = (stored.encoded.partition(b",")[2] for stored in (self, other))
        return mine == theirs


class _Names:
    """Names in the order of their first use; one place for all beyond the limit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._places: dict[str, int] = {}
        self._has_others = False

    def place(self, name: str) -> int:
        place = self._places.get(name)
        if place is None:
            if len(self._places) == self._most:
                self._has_others = True
                return self._most
            place = self._places[name] = len(self._places)
        return place

    @property
    def names(self) -> tuple[str, ...]:
        return (*self._places, *("",) * self._has_others)


class HistoryBuffer:
    """Samples of the past, at most MAX_HISTORY_SAMPLES, and at most one in `every_s` seconds."""

    def __init__(self, every_s: float = HISTORY_INTERVAL_S) -> None:
        self.every_s = every_s
        self._samples: deque[_StoredSample] = deque(maxlen=MAX_HISTORY_SAMPLES)
        self._groups, self._namespaces = _Names(MAX_HISTORY_GROUPS), _Names(MAX_HISTORY_NAMESPACES)
        self._taken_s = float("-inf")
        self._peak: tuple[int, tuple[int, ...]] | None = None
        """Most pending pods since the last sample, and their namespaces: pods that wait for seconds are seen, too."""

    @property
    def groups(self) -> tuple[str, ...]:
        return self._groups.names

    @property
    def namespaces(self) -> tuple[str, ...]:
        return self._namespaces.names

    @property
    def from_s(self) -> float | None:
        """Time of the oldest sample."""
        return self._samples[0].at_s if self._samples else None

    def note(self, view: DecisionView, figures: status_builder.ClusterMeasurements) -> None:
        """Take a sample if it is time. The snapshot must be unchanged since the decision."""
        sample = figures.sample
        if self._peak is None or sample.pending > self._peak[0]:
            self._peak = sample.pending, self._count_namespaces(view, figures.waiting)
        if sample.at_s - self._taken_s < self.every_s:
            return
        self._taken_s = sample.at_s
        pending, namespaces = self._peak
        self._peak = None
        found = HistorySample(
            sample.at_s,
            sample.nodes,
            pending,
            sample.cpu,
            sample.memory,
            sample.cost_per_hour,
            self._measure_groups(view),
            namespaces,
        )
        stored = _StoredSample(sample.at_s, msgspec.json.encode(found))
        if not self._samples or not stored.has_same_values(self._samples[-1]):
            self._samples.append(stored)

    def samples_after(self, at_s: float = float("-inf")) -> Iterator[msgspec.Raw]:
        """Samples after a time, oldest first, each a HistorySample as JSON."""
        return (msgspec.Raw(stored.encoded) for stored in self._samples if stored.at_s > at_s)

    def _measure_groups(self, view: DecisionView) -> tuple[float, ...]:
        """Largest groups first, so that these have values of their own."""
        groups = sorted(view.observation.groups, key=lambda group: (-group.target_size, group.id))
        places = {group.id: self._groups.place(group.id) for group in groups}
        figures = np.zeros((len(self._groups.names), GROUP_FIGURES))
        rows, at = _rows_of_groups(view, places)
        table = view.observation.snapshot.nodes
        np.add.at(figures[:, 0], at, 1.0)
        for column, unit, place in ((CPU_COLUMN, _CORE, 1), (MEMORY_COLUMN, _GIB, 3)):
            has, free = table.allocatable[column][rows], table.free[column][rows]
            np.add.at(figures[:, place], at, (has - free) / unit)
            np.add.at(figures[:, place + 1], at, has / unit)
        for group in groups:
            if group.price_per_hour is not None:
                figures[places[group.id], 5] += group.price_per_hour * status_builder.count_paid_instances(group)
        rounded = np.round(figures, _DECIMALS).ravel().tolist()
        return tuple(int(value) if value.is_integer() else value for value in rounded)

    def _count_namespaces(self, view: DecisionView, waiting: list[int]) -> tuple[int, ...]:
        table = view.observation.snapshot.pods
        kinds: Counter[int] = Counter(table.template_ids[waiting].tolist())
        examples = dict(zip(table.template_ids[waiting].tolist(), waiting, strict=True))
        counted: Counter[str] = Counter()
        for kind, count in kinds.items():
            counted[table.template_key(examples[kind]).namespace] += count
        places = [(self._namespaces.place(name), count) for name, count in sorted(counted.items())]
        totals = [0] * len(self._namespaces.names)
        for place, count in places:
            totals[place] += count
        return tuple(totals)


def _rows_of_groups(view: DecisionView, places: Mapping[str, int]) -> tuple[arrays.Rows, arrays.Rows]:
    """Rows (n,) of nodes that belong to a group, and places (n,) of their groups."""
    by_node, rows = view.group_of, view.observation.snapshot.nodes.rows
    found = [(rows[name], places[group.id]) for name, group in by_node.items() if name in rows]
    pairs = np.array(found, dtype=np.intp).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]
