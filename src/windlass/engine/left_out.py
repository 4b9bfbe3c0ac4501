"""What a decision leaves out of an observation, beside what was taken out of it (`quarantine`)."""

import enum
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from windlass.engine import dtypes, facts
from windlass.engine.pods import Kind, PodTable


class Part(enum.StrEnum):
    """Parts of a decision that can be left out."""

    SCALE_DOWN = "scale-down"
    SCALE_UP = "scale-up"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Pods and nodes of the snapshot, and parts of the decision."""

    kinds: frozenset[object] = frozenset()
    """`pods.Kind`: pods alike."""
    namespaces: frozenset[str] = frozenset()
    """All pods of these."""
    pending: frozenset[str] = frozenset()
    """Pending pods of these namespaces."""
    nodes: frozenset[str] = frozenset()
    parts: frozenset[Part] = frozenset()

    def has_kind(self, kind: Kind) -> bool:
        return kind.namespace in self.namespaces or kind in self.kinds

    def has_pending(self, kind: Kind) -> bool:
        """Are pending pods of the kind left out?"""
        return kind.namespace in self.pending or self.has_kind(kind)


NOTHING = LeftOut()


def find_kinds(left_out: LeftOut, table: PodTable) -> frozenset[int]:
    """The numbers of the kinds of pods that are left out."""
    if not left_out.kinds and not left_out.namespaces:
        return frozenset()
    return frozenset(number for number, kind in enumerate(table.kinds) if left_out.has_kind(kind))


def find_pending_kinds(left_out: LeftOut, table: PodTable) -> frozenset[int]:
    """The numbers of the kinds of which pending pods are left out."""
    if not left_out.pending:
        return find_kinds(left_out, table)
    return frozenset(number for number, kind in enumerate(table.kinds) if left_out.has_pending(kind))


def find_nodes(table: PodTable) -> dtypes.Rows:
    """Rows of the nodes that run a pod which is left out."""
    if not table.left_out:
        return np.zeros(0, np.intp)
    rows = table.node_rows[np.isin(table.kind_ids, list(table.left_out))]
    return np.unique(rows[rows != dtypes.ABSENT]).astype(np.intp)


def reduce_node(node: facts.Node) -> facts.Node:
    """A node of which nothing can be said but that it is there, and in use."""
    return facts.Node(
        node.name,
        node.uid,
        provider_id=node.provider_id,
        created_s=node.created_s,
        conditions=(facts.Condition("Ready", "True", node.created_s),),
    )


def without(numbers: list[int], hidden: AbstractSet[int]) -> list[int]:
    """Those that are not hidden."""
    return [number for number in numbers if number not in hidden] if hidden else numbers
