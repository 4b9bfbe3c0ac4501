"""--allowed-scheduler-names: pods of other schedulers trigger no scale-up. Do they count on the nodes they run on?"""

from tests.engine.loop.builders import (
    PEER,
    WINDLASS,
    at_once,
    choose,
    decide_once,
    drained,
    group,
    nodes,
    observe,
    pending,
    running,
    sizes,
)
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation

OTHER = "batch-scheduler"


def allow(settings: Settings, *names: str) -> Settings:
    return choose(at_once(settings), "pods", allowed_scheduler_names=names)


def see_full() -> Observation:
    """A node that a pod of another scheduler fills, and a pod of each scheduler that waits."""
    there = nodes("g", 1)
    pods = [
        running("full", "g-0", 4000, scheduler=OTHER),
        pending("own", 3000),
        pending("other", 3000, scheduler=OTHER),
    ]
    return observe([group("g", there)], there, pods)


def see_used() -> Observation:
    """A node that runs only a pod of another scheduler, which fits nowhere else, and a full node."""
    there = nodes("g", 2)
    pods = [running("other", "g-0", 1000, scheduler=OTHER), running("full", "g-1", 4000)]
    return observe([group("g", there)], there, pods)


def test_cluster_autoscaler_overlooks_them_on_nodes() -> None:
    settings = allow(PEER, "default-scheduler")
    assert sizes(decide_once(see_full(), settings)) == {}
    assert drained(decide_once(see_used(), settings)) == ["g-0"]


def test_windlass_counts_them() -> None:
    settings = allow(WINDLASS, "default-scheduler")
    assert settings.deviations.count_pods_of_all_schedulers
    assert sizes(decide_once(see_full(), settings)) == {"g": 2}
    assert drained(decide_once(see_used(), settings)) == []


def test_all_count_where_all_schedulers_are_allowed() -> None:
    for settings in (allow(PEER), allow(PEER, "default-scheduler", OTHER)):
        assert sizes(decide_once(see_full(), settings)) == {"g": 3}
        assert drained(decide_once(see_used(), settings)) == []
