"""Which nodes of all-or-nothing groups go, and which stay because not all of their group can.

The cases are those of Cluster Autoscaler's tests of its filter for atomic resizing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from tests.engine.loop.builders import (
    BOTH,
    at_once,
    choose,
    decide_once,
    drained,
    group,
    nodes,
    observe,
    reasons,
    running,
)
from windlass.engine.model.scale_down_state import UnremovableReason
from windlass.engine.model.settings import Settings


@dataclass(frozen=True)
class Pool:
    """Empty nodes and full ones of a group."""

    empty: int
    full: int = 0
    target: int | None = None
    is_whole: bool = True
    allows_partial: bool = False


@dataclass(frozen=True)
class Case:
    pools: Mapping[str, Pool] = field(default_factory=dict)
    removed: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)
    """Empty nodes that stay because others of their group must."""


CASES = {
    "one group goes, of another a node must stay": Case({"a": Pool(3), "b": Pool(2, 1)}, {"a": 3}, {"b": 2}),
    "a usual group beside one of which a node must stay": Case(
        {"a": Pool(3, 1, is_whole=False), "b": Pool(2, 1)}, {"a": 3}, {"b": 2}
    ),
    "usual groups": Case({"a": Pool(3, is_whole=False), "b": Pool(2, 1, is_whole=False)}, {"a": 3, "b": 2}),
    "all nodes that came to a group go": Case({"a": Pool(3, target=10)}, {"a": 3}),
    "all nodes that came to a group that may be filled in part go": Case(
        {"a": Pool(3, target=10, allows_partial=True)}, {"a": 3}
    ),
    "not all nodes that came to a group may go": Case({"a": Pool(3, 1, target=10, allows_partial=True)}, kept={"a": 3}),
}


@pytest.mark.parametrize("settings", BOTH, ids=["peer", "windlass"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_whole_groups_go_or_stay(case: Case, settings: Settings) -> None:
    groups, members, pods = [], [], []
    for id, pool in case.pools.items():
        own = nodes(id, pool.empty + pool.full)
        members += own
        pods += [running(f"on-{one.name}", one.name, 3500) for one in own[pool.empty :]]
        made = group(
            id, own, target=pool.target, zero_or_max=pool.is_whole,
            allow_non_atomic_scale_up_to_max=pool.allows_partial,
        )  # fmt: skip
        groups.append(replace(made, max_size=20))
    chosen = choose(at_once(settings), "groups", max_node_provision_time_s=1e9)
    decision = decide_once(observe(groups, members, pods), chosen)
    removed = {id: sum(name.startswith(f"{id}-") for name in drained(decision)) for id in case.pools}
    assert {id: count for id, count in removed.items() if count} == case.removed
    found = reasons(decision)
    for id, count in case.kept.items():
        failed = [name for name, why in found.items() if why is UnremovableReason.ATOMIC_SCALE_DOWN_FAILED]
        assert sum(name.startswith(f"{id}-") for name in failed) == count
