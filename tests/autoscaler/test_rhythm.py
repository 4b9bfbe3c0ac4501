from windlass import clock
from windlass.autoscaler.rhythm import Rhythm
from windlass.engine.deviations import Deviations


def settle_after(*pauses_s: float, quiet_s: float = 0.5, at_most_s: float = 10.0) -> float:
    """When it is quiet, if pods come with these pauses between them, since the first."""
    time = clock.Virtual()
    rhythm = Rhythm(time, Deviations(quiet_window_s=quiet_s, quiet_window_max_s=at_most_s))

    async def main() -> float:
        rhythm.note_pod()
        for pause_s in pauses_s:
            await time.sleep(pause_s)
            rhythm.note_pod()
        await rhythm.settle()
        return time.monotonic_s()

    return time.run(main())


def test_a_pod_that_is_alone_waits_for_the_window() -> None:
    assert settle_after() == 0.5


def test_pods_that_follow_are_waited_for() -> None:
    assert settle_after(0.4, 0.4, 0.4) == 0.4 + 0.4 + 0.4 + 0.5


def test_a_burst_is_waited_for_no_longer_than_the_limit() -> None:
    assert settle_after(0.4, 0.4, 0.4, at_most_s=1.3) == 1.3


def test_without_a_window_nobody_waits() -> None:
    assert settle_after(quiet_s=0.0) == 0.0


def test_the_next_pod_begins_another_burst() -> None:
    time = clock.Virtual()
    rhythm = Rhythm(time, Deviations(quiet_window_max_s=1.0))

    async def main() -> None:
        rhythm.note_pod()
        await rhythm.settle()
        await rhythm.settle()
        assert time.monotonic_s() == 0.5
        await time.sleep(5.0)
        rhythm.note_pod()
        await rhythm.settle()
        assert time.monotonic_s() == 6.0

    time.run(main())
