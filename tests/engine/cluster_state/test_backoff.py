from hypothesis import given
from hypothesis import strategies as st

from windlass.engine.cluster_state import backoff
from windlass.engine.model import cluster_health, node_groups, settings

LIMITS = settings.HealthSettings()
MINUTE_S = 60.0
ERROR = node_groups.InstanceError("Other", "timeout")
OTHER_ERROR = node_groups.InstanceError("OutOfResources", "STOCKOUT")


def fail_at(*times_s: float, group: str = "a") -> dict[str, cluster_health.Backoff]:
    backoffs: dict[str, cluster_health.Backoff] = {}
    for time_s in times_s:
        backoffs = backoff.back_off_group(backoffs, group, ERROR, time_s, LIMITS)
    return backoffs


def test_a_group_is_left_alone_for_five_minutes_the_last_moment_included() -> None:
    backoffs = fail_at(0.0)
    assert backoff.find_backoff(backoffs, "a", 5 * MINUTE_S) == backoffs["a"]
    assert backoff.find_backoff(backoffs, "a", 5 * MINUTE_S + 0.001) is None
    assert backoff.find_backoff(backoffs, "b", 0.0) is None


def test_each_further_time_is_twice_as_long_up_to_half_an_hour() -> None:
    times_s = [0.0]
    for _ in range(4):
        times_s.append(fail_at(*times_s)["a"].until_s + 1.0)
    durations_s = [fail_at(*times_s[: count + 1])["a"].duration_s for count in range(5)]
    assert durations_s == [5 * MINUTE_S, 10 * MINUTE_S, 20 * MINUTE_S, 30 * MINUTE_S, 30 * MINUTE_S]


def test_a_failure_during_backoff_starts_the_same_time_again() -> None:
    assert fail_at(0.0, 200.0)["a"] == cluster_health.Backoff(500.0, 300.0, 200.0, ERROR)
    assert fail_at(0.0, 300.0)["a"].duration_s == 300.0
    assert fail_at(0.0, 300.001)["a"].duration_s == 600.0


def test_the_first_time_may_be_longer_than_the_longest() -> None:
    limits = settings.HealthSettings(
        initial_node_group_backoff_duration_s=100.0, max_node_group_backoff_duration_s=60.0
    )
    backoffs = backoff.back_off_group({}, "a", ERROR, 0.0, limits)
    assert backoffs["a"].duration_s == 100.0
    assert backoff.back_off_group(backoffs, "a", ERROR, 101.0, limits)["a"].duration_s == 60.0


def test_the_last_error_is_the_one_reported_and_changes_nothing_else() -> None:
    backoffs = backoff.back_off_group(fail_at(0.0), "a", OTHER_ERROR, 1.0, LIMITS)
    assert backoffs["a"].error == OTHER_ERROR
    assert backoffs["a"].until_s == fail_at(0.0, 1.0)["a"].until_s


def test_a_failure_is_forgotten_after_three_hours() -> None:
    backoffs = fail_at(0.0)
    assert backoff.remove_stale_backoffs(backoffs, 3 * 3600.0, LIMITS) == backoffs
    assert backoff.remove_stale_backoffs(backoffs, 3 * 3600.0 + 0.001, LIMITS) == {}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["fail", "age"]), st.floats(0, 5000)), max_size=30))
def test_groups_do_not_affect_each_other(operations: list[tuple[str, str, float]]) -> None:
    def run(only: str | None) -> dict[str, cluster_health.Backoff]:
        backoffs: dict[str, cluster_health.Backoff] = {}
        now_s = 0.0
        for group, operation, passed_s in operations:
            now_s += passed_s
            if operation == "age":
                backoffs = backoff.remove_stale_backoffs(backoffs, now_s, LIMITS)
            elif only in (None, group):
                backoffs = backoff.back_off_group(backoffs, group, ERROR, now_s, LIMITS)
        return backoffs

    together = run(None)
    assert together == {group: backoff for only in "abc" for group, backoff in run(only).items()}
    assert all(LIMITS.initial_node_group_backoff_duration_s <= each.duration_s <= 1800.0 for each in together.values())
