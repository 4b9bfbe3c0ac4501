"""Refusing: why there is no room for a request, in words for its condition."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from windlass.engine import predicates, searching
from windlass.engine.observation import Observation
from windlass.engine.predicates import config
from windlass.engine.provisioning import conditions
from windlass.engine.scale_up import proposing, refusals
from windlass.engine.snapshot import Snapshot
from windlass.engine.verdict import FEASIBLE

TOGETHER = "No group, and no groups together, have room for all pods"
MOST_CHARS = 1000
MOST_NODES = "Max total nodes in cluster reached"


def explain_groups(proposal: proposing.Proposal, seen: Observation) -> str:
    """Why no scale-up makes room."""
    if proposal.result is proposing.Result.LIMITED_BY_MAX_NODES_TOTAL:
        return MOST_NODES
    existing = frozenset(group.id for group in seen.groups if group.exists)
    said = dict.fromkeys(refusals.count_reasons(proposal, alike, existing) for alike in proposal.remaining)
    told = "; ".join(text for text in said if text)
    return f"Groups say: {told}" if told else TOGETHER


def explain_nodes(snapshot: Snapshot, found: searching.Found, rows: Sequence[int], filters: config.FilterConfig) -> str:
    """What the nodes say of the first pod that has no place, after those that have one."""
    shape = snapshot.shapes[int(snapshot.pods.shape_ids[found.failed[0]])]
    judged = predicates.judge(snapshot, shape, filters)
    counts: Counter[str] = Counter()
    if judged.everywhere is not None:
        counts.update(judged.everywhere.texts)
    else:
        refused_by = judged.refused_by[judged.rows]
        for number in np.unique(refused_by[refused_by != FEASIBLE]).tolist():
            refused = judged.rows[refused_by == number].tolist()
            for refusal in predicates.explain_rows(snapshot, shape, refused, number, filters):
                counts.update(refusal.texts)
    room = f"Room for {len(found.placed)} of {len(rows)} pods"
    return f"{room}; nodes say of the next: {refusals.spell(counts)}" if counts else room


def add(saying: conditions.Saying, why: str) -> conditions.Saying:
    """The same, with the reason behind the peer's words, as far as it can be read."""
    told = why if len(why) <= MOST_CHARS else f"{why[:MOST_CHARS]}…"
    return replace(saying, message=f"{saying.message} {told}") if why else saying
