"""Taints with a meaning to the autoscaler: its own marks, and those that come and go.

    ToBeDeletedByClusterAutoscaler=<since>:NoSchedule              the node is being removed
    DeletionCandidateOfClusterAutoscaler=<since>:PreferNoSchedule  the node is unneeded, and may be removed soon
    startup-taint.cluster-autoscaler.kubernetes.io/…               the node is starting: not ready, whatever it says
    ignore-taint.cluster-autoscaler.kubernetes.io/…                the same, by its old name
    readiness.k8s.io/…                                             the same, of the Node Readiness Controller
    status-taint.cluster-autoscaler.kubernetes.io/…                the node is in some passing state
    node.kubernetes.io/not-ready …                                 a condition of the node

New nodes start with none of these, so templates are made without them. A mark is looked for by its key alone: whoever
changed its effect did not change what it says. `<since>` is in seconds since the epoch.
"""

import re
from dataclasses import dataclass, replace

from windlass.engine.cluster_state import readiness
from windlass.engine.model import facts, settings

TO_BE_DELETED_KEY = facts.TO_BE_DELETED
DELETION_CANDIDATE_KEY = "DeletionCandidateOfClusterAutoscaler"

STARTUP_PREFIXES = (
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
)
READINESS_PREFIX = "readiness.k8s.io/"
"""Of taints that the Node Readiness Controller keeps on a node until its rules hold."""
STATUS_PREFIX = "status-taint.cluster-autoscaler.kubernetes.io/"

CONDITION_TAINTS = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.kubernetes.io/pid-pressure",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cloudprovider.kubernetes.io/shutdown",
        "cloud.google.com/impending-node-termination",
        "NodeWithImpairedVolumes",
    }
)
"""Keys of taints that stand for a condition of the node."""

DELETION_TAKES_S = 300.0
"""Within this time of the taint a node counts as being deleted; later, the process that set it has given up."""

_NUMBER = re.compile(r"[+-]?[0-9]{1,63}")  # a taint's value is never longer
_LAST_S = 2**63 - 1


# ── Own marks ────────────────────────────────────────────────────────────────────────────────────────────────────


def make_to_be_deleted(now_s: float) -> facts.Taint:
    return facts.Taint(TO_BE_DELETED_KEY, str(int(now_s)), "NoSchedule")


def make_deletion_candidate(now_s: float) -> facts.Taint:
    return facts.Taint(DELETION_CANDIDATE_KEY, str(int(now_s)), "PreferNoSchedule")


def has_taint(node: facts.Node, key: str) -> bool:
    return bool(node.taints) and any(taint.key == key for taint in node.taints)  # most nodes have none


def marked_at_s(node: facts.Node, key: str) -> float | None:
    """Since when the node carries a mark; None where it has none, or one that does not tell."""
    for taint in node.taints:
        if taint.key == key:
            return _read_seconds(taint.value)
    return None


def _read_seconds(text: str) -> float | None:
    if not _NUMBER.fullmatch(text):
        return None
    seconds = int(text)
    return float(seconds) if abs(seconds) <= _LAST_S else None


def is_being_deleted(node: facts.Node, now_s: float) -> bool:
    """Was it marked for deletion so lately that the deletion is still under way?"""
    since_s = marked_at_s(node, TO_BE_DELETED_KEY)
    return since_s is not None and now_s - since_s < DELETION_TAKES_S


# ── Passing taints ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class TransientTaints:
    """Which taints come and go: those built in, and those that the user names."""

    startup: frozenset[str] = frozenset()
    startup_prefixes: tuple[str, ...] = STARTUP_PREFIXES
    status: frozenset[str] = frozenset()
    scale_from_unschedulable: bool = False
    """Whether a template made from a cordoned node is not cordoned."""

    def is_startup(self, key: str) -> bool:
        return key in self.startup or key.startswith(self.startup_prefixes)

    def is_status(self, key: str) -> bool:
        return key in self.status or key.startswith(STATUS_PREFIX)

    def strip(self, existing: tuple[facts.Taint, ...]) -> tuple[facts.Taint, ...]:
        """The taints that a new node would have, given those of one like it."""
        return tuple(taint for taint in existing if not self._passes(taint.key))

    def _passes(self, key: str) -> bool:
        return key in _OWN_TAINTS or key in CONDITION_TAINTS or self.is_startup(key) or self.is_status(key)

    def mark_starting(self, node: facts.Node) -> facts.Node:
        """The node, or one that is not ready in its stead if a startup taint says that it is still starting.

        A cordoned node is left as it is: no startup is waited for.
        """
        if not node.taints or node.unschedulable or not readiness.assess_node(node).is_ready:
            return node
        if any(self.is_startup(taint.key) for taint in node.taints):
            return readiness.mark_unready(node, readiness.STARTUP_TAINT)
        return node


_OWN_TAINTS = frozenset({TO_BE_DELETED_KEY, DELETION_CANDIDATE_KEY})


def make_transient_taints(templates: settings.TemplateSettings, readiness_taints: bool = False) -> TransientTaints:
    """What the user's flags make of taints. `readiness_taints`: those of the Node Readiness Controller are known."""
    known = (*STARTUP_PREFIXES, READINESS_PREFIX) if readiness_taints else STARTUP_PREFIXES
    return TransientTaints(
        frozenset(templates.startup_taint),
        (*known, *templates.startup_taint_prefix),
        frozenset(templates.status_taint),
        templates.scale_from_unschedulable,
    )


def sanitize(node: facts.Node, passing: TransientTaints) -> facts.Node:
    """The node without what a new one would not have."""
    remaining = passing.strip(node.taints)
    unschedulable = node.unschedulable and not passing.scale_from_unschedulable
    if len(remaining) == len(node.taints) and unschedulable == node.unschedulable:
        return node
    return replace(node, taints=remaining, unschedulable=unschedulable)
