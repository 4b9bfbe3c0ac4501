"""Scheduling reasons: why a pod may not run on a node, as values; text is formatted when it is read.

A `Refusal` is one filter's answer for one pod on one node: its rule, status code, and the reasons with the quantities
that decided. A `Diagnosis` is a pod against all nodes: one small number per node.
"""

import enum
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


class StatusCode(enum.StrEnum):
    """Whether removing pods could make the node feasible, by kube-scheduler's names."""

    UNSCHEDULABLE = "Unschedulable"
    """Removing pods might help."""
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """It would not."""
    ERROR = "Error"


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason in the scheduler's words. Formatted only when read."""

    template: str
    values: tuple[object, ...] = ()

    def __str__(self) -> str:
        return self.template.format(*self.values) if self.values else self.template


@dataclass(frozen=True, slots=True)
class Insufficient(Reason):
    """A node has too little of a resource. Amounts in the resource's own unit (millicores, bytes, pieces)."""

    resource: str = ""
    requested: int = 0
    used: int = 0
    capacity: int = 0

    def __str__(self) -> str:
        return "Too many pods" if self.resource == "pods" else f"Insufficient {self.resource}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """One filter's refusal: rule, status code and reasons."""

    rule: str
    code: StatusCode
    reasons: tuple[Reason, ...]

    @property
    def texts(self) -> list[str]:
        return sorted(str(reason) for reason in self.reasons)


FEASIBLE = 0
"""In `Judgement.refused_by`: no filter refused."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One pod against all nodes of a snapshot.

    `refused_by` is uint8 (n_nodes): 0 where the pod may run, else 1 + the position of the first refusing filter.
    """

    rows: npt.NDArray[np.intp]
    """The rows judged: the nodes that exist."""
    refused_by: npt.NDArray[np.uint8]
    everywhere: Refusal | None
    """A refusal by a pre-filter, for all nodes; `refused_by` is then meaningless."""
    explain: Callable[[int, int], Refusal]
    """(row, refused_by) -> the refusal; evaluates the filter again, so the cost arises only on access."""

    def __getitem__(self, row: int) -> Refusal | None:
        if self.everywhere is not None:
            return self.everywhere
        code = int(self.refused_by[row])
        return None if code == FEASIBLE else self.explain(row, code)

    @property
    def feasible(self) -> npt.NDArray[np.intp]:
        """Rows on which the pod may run."""
        if self.everywhere is not None:
            return self.rows[:0]
        passed: npt.NDArray[np.intp] = self.rows[self.refused_by[self.rows] == FEASIBLE]
        return passed

    def refusals(self) -> Iterator[tuple[int, Refusal]]:
        for row in self.rows.tolist():
            refusal = self[row]
            if refusal is not None:
                yield row, refusal

    def summary(self) -> str:
        """Counted by reason as the scheduler's own message does: `0/5 nodes are available: 3 Insufficient cpu, …`."""
        total = len(self.rows)
        if self.everywhere is not None:
            return f"0/{total} nodes are available: {', '.join(self.everywhere.texts)}."
        counts = Counter(text for _, refusal in self.refusals() for text in refusal.texts)
        parts = sorted(f"{count} {text}" for text, count in counts.items())
        return f"{len(self.feasible)}/{total} nodes are available{': ' if parts else ''}{', '.join(parts)}."
