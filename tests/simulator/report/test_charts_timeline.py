from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from windlass.simulator.report.charts import StepLabel, place_labels

MARKS = st.lists(st.builds(StepLabel, st.text("ab ", min_size=1, max_size=20), st.floats(0, 1)), max_size=8)


def test_words_that_do_not_meet_share_the_first_line() -> None:
    placed = dict(place_labels([StepLabel("rollout", 0.1), StepLabel("3 vanish", 0.9)]))
    assert set(placed.values()) == {0}


def test_words_before_a_late_mark_stand_below_those_after_an_early_one() -> None:
    jobs, vanish = StepLabel("30 batch jobs", 0.375), StepLabel("3 general vanish", 0.75)
    assert dict(place_labels([jobs, vanish])) == {jobs: 0, vanish: 1}


@given(MARKS)
def test_no_words_cover_others_while_there_is_a_free_line(marks: list[StepLabel]) -> None:
    placed = list(place_labels(marks))
    assert sorted(mark.covers for mark, _ in placed) == sorted(mark.covers for mark in marks)
    for (step_label, its_line), (other, other_line) in combinations(placed, 2):
        meets = step_label.covers[0] < other.covers[1] and other.covers[0] < step_label.covers[1]
        crowd = sum(step_label.covers[0] < mark.covers[1] and mark.covers[0] < step_label.covers[1] for mark in marks)
        assert its_line != other_line or not meets or crowd > 5
