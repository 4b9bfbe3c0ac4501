import pytest

from windlass import clock
from windlass.autoscaler.batcher import PodBatcher
from windlass.engine.model.deviations import Deviations


def nobody(_: float) -> float:
    """Until when pods are awaited, where all are tried at once."""
    return float("-inf")


def settle_after(
    *pauses_s: float, quiet_s: float = 0.5, at_most_s: float = 10.0, awaited_s: float = 0.0, tried_after_s: float = 0.0
) -> float:
    """When it is quiet, if pods turn unschedulable with these pauses between them, since the first.

    `awaited_s`: for so long there is one that the scheduler has not tried. `tried_after_s`: so long before it was tried
    did each of them come.
    """
    time = clock.VirtualClock()

    def awaited_until_s(_: float) -> float:
        return 60.0 if time.monotonic_s() < awaited_s else float("-inf")

    rhythm = PodBatcher(time, Deviations(quiet_window_s=quiet_s, quiet_window_max_s=at_most_s), awaited_until_s)

    async def main() -> float:
        for pause_s in (0.0, *pauses_s):
            await time.sleep(pause_s)
            rhythm.trigger(time.monotonic_s() - tried_after_s)
        await rhythm.wait()
        return time.monotonic_s()

    return time.run(main())


def test_a_pod_that_is_alone_waits_for_the_window() -> None:
    assert settle_after() == 0.5


def test_pods_that_follow_are_waited_for() -> None:
    assert settle_after(0.4, 0.4, 0.4) == 0.4 + 0.4 + 0.4 + 0.5


def test_a_burst_is_waited_for_no_longer_than_the_limit() -> None:
    assert settle_after(0.4, 0.4, 0.4, at_most_s=1.3) == 1.3


def test_a_burst_is_not_over_while_the_scheduler_has_pods_to_try() -> None:
    assert settle_after(awaited_s=3.0) == pytest.approx(3.0, abs=0.1)


def test_the_window_begins_when_pods_come_not_when_they_are_tried() -> None:
    assert settle_after(0.4, tried_after_s=0.3) == pytest.approx(0.4 + 0.5 - 0.3)


def test_a_burst_is_over_with_the_last_try_if_none_has_come_for_long() -> None:
    assert settle_after(0.4, 0.4, tried_after_s=2.0) == pytest.approx(0.8)


def test_pods_that_are_never_tried_are_waited_for_no_longer_than_the_limit() -> None:
    assert settle_after(awaited_s=60.0) == 10.0


def test_without_a_window_pods_that_are_never_tried_are_not_waited_for() -> None:
    assert settle_after(quiet_s=0.0, awaited_s=60.0) == 0.0


def test_without_a_window_nobody_waits() -> None:
    assert settle_after(quiet_s=0.0) == 0.0


def test_the_next_pod_begins_another_burst() -> None:
    time = clock.VirtualClock()
    rhythm = PodBatcher(time, Deviations(quiet_window_s=0.5, quiet_window_max_s=1.0), nobody)

    async def main() -> None:
        rhythm.trigger(time.monotonic_s())
        await rhythm.wait()
        await rhythm.wait()
        assert time.monotonic_s() == 0.5
        await time.sleep(5.0)
        rhythm.trigger(time.monotonic_s())
        await rhythm.wait()
        assert time.monotonic_s() == 6.0

    time.run(main())
