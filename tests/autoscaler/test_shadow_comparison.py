"""Scripted sequences of wishes and deeds."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from windlass.autoscaler import shadow_comparison
from windlass.autoscaler.shadow_comparison import (
    InactionReasons,
    ObservedAction,
    ObservedRemoval,
    ObservedResize,
    ProposedAction,
    ProposedRemoval,
    ProposedResize,
    ScaleDirection,
    ShadowVerdict,
    VerdictKind,
    VerdictTotals,
)

WINDOW_S = 60.0
RELUCTANT = InactionReasons(
    {"full": "max node group size reached"}, {"busy": "NotUnderutilized"}, "ScaleUpNotNeeded", "Cool"
)


class Script:
    """Turns one after another, and all verdicts so far."""

    def __init__(self, theirs: dict[str, str] | None = None, silence: dict[str, str] | None = None) -> None:
        self.book = shadow_comparison.ComparisonState()
        self.verdicts: list[ShadowVerdict] = []
        self._theirs, self._silence = theirs or {}, silence or {}

    def turn(
        self, now_s: float, wishes: Sequence[ProposedAction] = (), deeds: Sequence[ObservedAction] = ()
    ) -> list[ShadowVerdict]:
        turn = shadow_comparison.ComparisonInput(
            tuple(deeds), tuple(wishes), RELUCTANT, self._theirs, self._silence, now_s
        )
        self.book, shadow_verdicts = shadow_comparison.update_comparisons(self.book, turn, WINDOW_S)
        self.verdicts += shadow_verdicts
        return list(shadow_verdicts)


def kinds(verdicts: Sequence[ShadowVerdict]) -> list[VerdictKind]:
    return [verdict.kind for verdict in verdicts]


def test_the_same_size_is_agreement_however_often_it_is_wished() -> None:
    script = Script({"a": "pod triggered scale-up"})
    for now_s in (0.0, 1.0, 2.0):
        assert script.turn(now_s, [ProposedResize("a", 1, 4, now_s, "for 3 pods")]) == []
    (verdict,) = script.turn(6.0, deeds=[ObservedResize("a", 1, 4, 5.5)])

    assert (verdict.direction, verdict.kind, verdict.subject) == (ScaleDirection.UP, VerdictKind.AGREED, "a")
    assert (verdict.wanted, verdict.done, verdict.lead_s) == (3, 3, 5.5)
    assert (verdict.ours, verdict.theirs) == ("for 3 pods", "pod triggered scale-up")
    assert script.turn(1000.0) == []


def test_one_wish_may_be_answered_in_several_steps() -> None:
    script = Script()
    script.turn(0.0, [ProposedResize("a", 1, 6, 0.0)])
    assert script.turn(10.0, [ProposedResize("a", 3, 6, 10.0)], [ObservedResize("a", 1, 3, 10.0)]) == []
    (verdict,) = script.turn(20.0, deeds=[ObservedResize("a", 3, 6, 20.0)])
    assert (verdict.kind, verdict.wanted, verdict.done, verdict.lead_s) == (VerdictKind.AGREED, 5, 5, 20.0)


def test_the_other_may_be_sooner() -> None:
    script = Script()
    assert script.turn(0.0, deeds=[ObservedResize("a", 1, 2, 0.0)]) == []
    (verdict,) = script.turn(5.0, [ProposedResize("a", 1, 2, 5.0)])
    assert (verdict.kind, verdict.lead_s) == (VerdictKind.AGREED, -5.0)


def test_another_size_is_told_when_the_window_is_over() -> None:
    script = Script()
    script.turn(0.0, [ProposedResize("a", 1, 4, 0.0, "for 3 pods")])
    script.turn(10.0, deeds=[ObservedResize("a", 1, 3, 10.0)])
    assert script.turn(59.9) == []
    (verdict,) = script.turn(60.0)
    assert (verdict.kind, verdict.wanted, verdict.done, verdict.lead_s) == (VerdictKind.OTHER_SIZE, 3, 2, 10.0)


def test_a_wish_that_the_other_does_not_share_is_told_once_while_it_stands() -> None:
    script = Script(silence={"default/p": "1 Insufficient cpu"})
    for now_s in range(0, 300, 10):
        script.turn(float(now_s), [ProposedResize("a", 1, 2, float(now_s), "for default/p", ("default/p",))])
    assert kinds(script.verdicts) == [VerdictKind.ONLY_WINDLASS]
    assert script.verdicts[0].theirs == "1 Insufficient cpu"

    script.turn(300.0)
    for now_s in range(310, 400, 10):
        script.turn(float(now_s), [ProposedResize("a", 1, 2, float(now_s))])
    assert kinds(script.verdicts) == [VerdictKind.ONLY_WINDLASS] * 2


def test_the_other_may_follow_after_the_window() -> None:
    script = Script()
    for now_s in (0.0, 30.0, 60.0, 90.0):
        script.turn(now_s, [ProposedResize("a", 1, 2, now_s), ProposedRemoval("n", "b", now_s)])
    script.turn(120.0, deeds=[ObservedResize("a", 1, 2, 120.0), ObservedRemoval("n", "b", 115.0)])
    assert kinds(script.verdicts) == [
        VerdictKind.ONLY_WINDLASS,
        VerdictKind.ONLY_WINDLASS,
        VerdictKind.LATE,
        VerdictKind.LATE,
    ]
    assert [verdict.lead_s for verdict in script.verdicts[2:]] == [120.0, 115.0]
    assert script.turn(500.0) == []


def test_what_only_the_other_did_comes_with_why_we_did_not() -> None:
    script = Script()
    deeds: list[ObservedAction] = [ObservedResize("full", 9, 10, 0.0), ObservedRemoval("busy", "b", 0.0)]
    assert script.turn(0.0, deeds=deeds) == []
    up, down = script.turn(60.0)
    assert (up.kind, up.wanted, up.done, up.ours) == (VerdictKind.ONLY_OTHER, 0, 1, "max node group size reached")
    assert (down.kind, down.wanted, down.done, down.ours) == (VerdictKind.ONLY_OTHER, 0, 1, "NotUnderutilized")


def test_another_group_is_one_difference_and_not_two() -> None:
    script = Script({"b": "b was chosen"})
    script.turn(0.0, [ProposedResize("a", 1, 3, 0.0, "least-waste")])
    script.turn(8.0, deeds=[ObservedResize("b", 0, 2, 8.0)])
    (verdict,) = script.turn(60.0)
    assert (verdict.kind, verdict.subject, verdict.instead) == (VerdictKind.OTHER_CHOICE, "a", "b")
    assert (verdict.wanted, verdict.done, verdict.lead_s) == (2, 2, 8.0)
    assert (verdict.ours, verdict.theirs) == ("least-waste", "b was chosen")
    assert script.turn(200.0) == []


def test_another_node_of_the_group_is_one_difference_of_another_group_two() -> None:
    script = Script()
    script.turn(0.0, [ProposedRemoval("a-1", "a", 0.0), ProposedRemoval("b-1", "b", 0.0)])
    script.turn(5.0, deeds=[ObservedRemoval("a-2", "a", 5.0), ObservedRemoval("c-1", "c", 5.0)])
    script.turn(65.0)
    assert {(verdict.kind, verdict.subject, verdict.instead) for verdict in script.verdicts} == {
        (VerdictKind.OTHER_CHOICE, "a-1", "a-2"),
        (VerdictKind.ONLY_WINDLASS, "b-1", ""),
        (VerdictKind.ONLY_OTHER, "c-1", ""),
    }


def test_a_node_that_both_want_gone_is_agreement() -> None:
    script = Script()
    script.turn(0.0, [ProposedRemoval("n", "a", 0.0, "it is empty")])
    (verdict,) = script.turn(7.0, deeds=[ObservedRemoval("n", "a", 7.0)])
    assert (verdict.direction, verdict.kind, verdict.lead_s) == (ScaleDirection.DOWN, VerdictKind.AGREED, 7.0)


def test_groups_that_shrink_are_no_scale_up() -> None:
    script = Script()
    script.turn(0.0, deeds=[ObservedResize("a", 5, 3, 0.0)])
    assert script.turn(100.0) == []


def test_what_is_open_in_the_end_is_answered() -> None:
    script = Script()
    script.turn(0.0, [ProposedResize("a", 1, 2, 0.0)])
    assert kinds(shadow_comparison.close_comparisons(script.book, 5.0)) == [VerdictKind.ONLY_WINDLASS]


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(1, 3), st.booleans(), st.floats(0.0, 30.0)),
        min_size=1,
        max_size=12,
    )
)
def test_every_node_is_counted_on_both_sides_exactly_once(steps: list[tuple[str, int, bool, float]]) -> None:
    """However wishes and deeds come, what was done is what is told to have been done."""
    script, sizes, now_s, done = Script(), {"a": 0, "b": 0}, 0.0, 0
    for group, by, is_deed, rest_s in steps:
        now_s += rest_s
        size = sizes[group]
        if is_deed:
            sizes[group] += by
            done += by
            script.turn(now_s, deeds=[ObservedResize(group, size, size + by, now_s)])
        else:
            script.turn(now_s, [ProposedResize(group, size, size + by, now_s)])
    totals = VerdictTotals()
    for verdict in (*script.verdicts, *shadow_comparison.close_comparisons(script.book, now_s)):
        totals = totals.add(verdict)
    assert totals.done[ScaleDirection.UP] == done
