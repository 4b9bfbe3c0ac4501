import asyncio
from collections.abc import Awaitable, Callable

import pytest

from windlass import clock
from windlass.runtime import health, loop


def play(scenario: Callable[[clock.VirtualClock], Awaitable[None]]) -> None:
    virtual = clock.VirtualClock()

    async def main() -> None:
        await scenario(virtual)

    virtual.run(main())


def test_turns_begin_a_period_apart_and_never_overlap() -> None:
    async def scenario(time: clock.VirtualClock) -> None:
        begun: list[float] = []
        lasts = iter([1.0, 25.0, 0.0, 0.0])

        async def turn() -> None:
            begun.append(time.monotonic_s())
            await time.sleep(next(lasts))

        running = asyncio.create_task(loop.Loop("test", turn, 10.0, time).run())
        await time.sleep(50)
        running.cancel()
        assert begun == [0.0, 10.0, 35.0, 45.0]

    play(scenario)


def test_a_loop_that_is_woken_turns_at_once_and_then_as_before() -> None:
    async def scenario(time: clock.VirtualClock) -> None:
        begun: list[float] = []

        async def turn() -> None:
            begun.append(time.monotonic_s())
            await time.sleep(1)

        turning = loop.Loop("test", turn, 10.0, time)
        running = asyncio.create_task(turning.run())
        await time.sleep(3)
        turning.wake()
        turning.wake()
        await time.sleep(10.5)
        turning.wake()
        await time.sleep(6)
        running.cancel()
        assert begun == [0.0, 3.0, 13.0, 14.0]

    play(scenario)


def test_a_turn_that_fails_is_counted_and_the_next_one_comes(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(time: clock.VirtualClock) -> None:
        async def turn() -> None:
            if turning.iterations < 3:
                raise ZeroDivisionError

        turning = loop.Loop("test", turn, 10.0, time)
        running = asyncio.create_task(turning.run())
        await time.sleep(15)
        assert (turning.iterations, turning.failures, turning.succeeded_at_s) == (2, 2, None)
        await time.sleep(10)
        assert (turning.iterations, turning.failures, turning.succeeded_at_s) == (3, 0, 20.0)
        running.cancel()

    play(scenario)
    assert "loop=test iteration=2 consecutive=2" in caplog.text


def test_a_turn_that_fails_is_not_taken_at_once_again_however_often_it_is_woken() -> None:
    async def scenario(time: clock.VirtualClock) -> None:
        begun: list[float] = []

        async def turn() -> None:
            begun.append(time.monotonic_s())
            if time.monotonic_s() < 20.0:
                raise OSError("cannot")

        turning = loop.Loop("test", turn, 10.0, time)
        running = asyncio.create_task(turning.run())
        for _ in range(270):
            await time.sleep(0.1)
            turning.wake()
        running.cancel()
        failed = [at_s for at_s in begun if at_s < 20.0]
        assert failed == [0.0, pytest.approx(1.0), pytest.approx(3.0), pytest.approx(7.0), pytest.approx(15.0)]
        assert begun[len(failed)] == pytest.approx(25.0)
        assert begun[len(failed) + 1] == pytest.approx(25.1)

    play(scenario)


def test_a_loop_is_well_while_it_turns_and_succeeds() -> None:
    async def scenario(time: clock.VirtualClock) -> None:
        fails = False
        lasts_s = 0.0

        async def turn() -> None:
            await time.sleep(lasts_s)
            if fails:
                raise ZeroDivisionError

        turning = loop.Loop("scan", turn, 10.0, time)
        activity = health.LoopActivity(turning, time, max_inactivity_s=600, max_failing_s=900)
        await time.sleep(5000)
        assert activity() == "", "a loop that never began is not at fault"
        running = asyncio.create_task(turning.run())
        await time.sleep(2000)
        assert activity() == ""
        fails = True
        await time.sleep(880)
        assert activity() == ""
        await time.sleep(40)
        assert activity().startswith("scan: no success for 9")
        fails = False
        await time.sleep(20)
        assert activity() == ""
        lasts_s = 1e9
        await time.sleep(580)
        assert activity() == ""
        await time.sleep(40)
        assert activity().startswith("scan: no activity for 6")
        running.cancel()

    play(scenario)


def test_the_first_success_may_take_longer() -> None:
    async def scenario(time: clock.VirtualClock) -> None:
        async def turn() -> None:
            await time.sleep(700)

        turning = loop.Loop("scan", turn, 10.0, time)
        activity = health.LoopActivity(turning, time, max_inactivity_s=100, max_failing_s=100, max_startup_s=800)
        running = asyncio.create_task(turning.run())
        await time.sleep(690)
        assert activity() == ""
        await time.sleep(120)
        assert activity() == "scan: no activity for 110 s"
        running.cancel()

    play(scenario)


def test_turns_are_passed_over_until_one_is_due_that_may_matter() -> None:
    async def scenario(time: clock.VirtualClock) -> None:
        begun: list[float] = []

        async def turn() -> None:
            begun.append(time.monotonic_s())
            turning.skip_until(begun[-1] + 34.0)

        turning = loop.Loop("test", turn, 10.0, time)
        running = asyncio.create_task(turning.run())
        await time.sleep(95)
        running.cancel()
        assert begun == [0.0, 40.0, 80.0]

    play(scenario)


def test_the_next_turn_begins_when_the_last_that_was_passed_over_would_have_woken_it() -> None:
    async def scenario(time: clock.VirtualClock) -> None:
        begun: list[float] = []

        async def turn() -> None:
            begun.append(time.monotonic_s())
            until_s = begun[-1] + (34.0 if len(begun) < 3 else 30.0)
            turning.skip_until(until_s, until_s + 0.5)

        turning = loop.Loop("test", turn, 10.0, time)
        running = asyncio.create_task(turning.run())
        await time.sleep(66)
        turning.mark_changed()
        await time.sleep(40)
        running.cancel()
        # Stirred at 66, after the turn of 64.5 had it woken at 69; the turn of 99 begins right then and wakes nobody.
        assert begun == [0.0, 34.5, 69.0, 99.0]

    play(scenario)


def test_what_stirs_brings_the_turn_that_would_have_come_anyway() -> None:
    async def scenario(time: clock.VirtualClock) -> None:
        begun: list[float] = []

        async def turn() -> None:
            begun.append(time.monotonic_s())
            turning.skip_until(float("inf"))

        turning = loop.Loop("test", turn, 10.0, time)
        running = asyncio.create_task(turning.run())
        await time.sleep(23)
        turning.mark_changed()
        await time.sleep(20)
        turning.wake()
        await time.sleep(200_000)
        running.cancel()
        assert begun == [0.0, 30.0, 43.0]

    play(scenario)


def test_what_happens_during_a_turn_is_not_passed_over() -> None:
    async def scenario(time: clock.VirtualClock) -> None:
        begun: list[float] = []

        async def turn() -> None:
            begun.append(time.monotonic_s())
            await time.sleep(2)
            turning.skip_until(float("inf"))

        turning = loop.Loop("test", turn, 10.0, time)
        running = asyncio.create_task(turning.run())
        await time.sleep(1)
        turning.mark_changed()
        await time.sleep(30)
        running.cancel()
        assert begun == [0.0, 10.0]

    play(scenario)


def test_a_turn_that_fails_instead_of_being_cancelled_ends_the_loop() -> None:
    async def scenario(time: clock.VirtualClock) -> None:
        async def turn() -> None:
            try:
                await time.sleep(1000.0)
            finally:
                raise ZeroDivisionError

        looping = loop.Loop("test", turn, 10.0, time)
        running = asyncio.create_task(looping.run())
        await time.sleep(1.0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert looping.iterations == 1

    play(scenario)


def test_a_leader_that_never_sees_everything_is_not_live() -> None:
    async def scenario(time: clock.VirtualClock) -> None:
        async def turn() -> None:
            raise AssertionError

        since: list[float | None] = [None]
        turning = loop.Loop("scan", turn, 10.0, time)
        activity = health.LoopActivity(turning, time, max_startup_s=800.0, leading_since_s=lambda: since[0])
        await time.sleep(2000.0)
        assert activity() == "", "a candidate waits for as long as it takes"
        since[0] = time.monotonic_s()
        await time.sleep(800.0)
        assert activity() == ""
        await time.sleep(1.0)
        assert activity() == "scan: leads for 801 s and has not seen everything yet"

    play(scenario)
