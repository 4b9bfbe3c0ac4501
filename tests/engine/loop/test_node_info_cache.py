"""What nodes of a group were like outlives them for as long as --node-info-cache-expire-time says."""

import pytest

from tests.engine.loop.builders import BOTH, NOW_S, choose, decide_once, group, node, observe, pending, result, sizes
from windlass.engine import loop_memory
from windlass.engine.model.scale_up_status import ScaleUpResult
from windlass.engine.model.settings import Settings

behaviors = pytest.mark.parametrize("settings", BOTH, ids=["cluster-autoscaler", "windlass"])


def remember_small_node(settings: Settings, *times_s: float) -> loop_memory.LoopMemory:
    """Loops at these times over a group whose one node is small; the provider's template is large."""
    small, before = node("g-0", cpu=1000), loop_memory.LoopMemory()
    observation = observe([group("g", [small])], [small])
    for at_s in times_s:
        before = decide_once(observation, settings, before, at_s).memory
    return before


@behaviors
@pytest.mark.parametrize(("gone_for_s", "helps"), [(60.0, False), (60.5, True), (3600.0, True)])
def test_a_template_expires(settings: Settings, gone_for_s: float, helps: bool) -> None:
    settings = choose(settings, "templates", node_info_cache_expire_time_s=60.0)
    before, now_s = remember_small_node(settings, NOW_S), NOW_S + gone_for_s
    wanting = pending("p", cpu=3000, created_s=now_s - 60.0, unschedulable_since_s=now_s - 60.0)
    decision = decide_once(observe([group("g")], [], [wanting]), settings, before, now_s)
    assert sizes(decision) == ({"g": 1} if helps else {})
    assert result(decision) is (ScaleUpResult.SUCCESSFUL if helps else ScaleUpResult.NO_OPTIONS)


@behaviors
def test_it_counts_from_the_last_loop_that_saw_the_node(settings: Settings) -> None:
    settings = choose(settings, "templates", node_info_cache_expire_time_s=60.0)
    before = remember_small_node(settings, *(NOW_S + t for t in range(0, 310, 10)))
    assert before.volatile.learned_s == {"g": NOW_S + 300.0}


@behaviors
def test_a_template_is_kept_for_ten_years_if_no_time_is_said(settings: Settings) -> None:
    before, now_s = remember_small_node(settings, NOW_S), NOW_S + 365 * 86_400.0
    wanting = pending("p", cpu=3000, created_s=now_s - 60.0, unschedulable_since_s=now_s - 60.0)
    assert (
        result(decide_once(observe([group("g")], [], [wanting]), settings, before, now_s)) is ScaleUpResult.NO_OPTIONS
    )


def test_a_quiet_decision_ends_when_a_template_expires() -> None:
    settings = choose(Settings(), "templates", node_info_cache_expire_time_s=3600.0)
    before = remember_small_node(settings, NOW_S)
    gone = observe([group("g")], [])
    decision = decide_once(gone, settings, before, NOW_S + 100.0)
    assert decision.quiet_until_s <= NOW_S + 3600.0


@behaviors
@pytest.mark.parametrize("lifted", [False, True])
def test_a_template_of_a_cordoned_node_is_cordoned_unless_that_is_ignored(settings: Settings, lifted: bool) -> None:
    settings = choose(settings, "templates", scale_from_unschedulable=lifted)
    cordoned = node("g-0", unschedulable=True)
    own = group("g", [cordoned])
    own = type(own)(own.id, own.min_size, own.max_size, own.target_size, own.instances)  # no template of the provider
    decision = decide_once(observe([own], [cordoned], [pending("p")]), settings)
    assert sizes(decision) == ({"g": 2} if lifted else {})
