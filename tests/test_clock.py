import asyncio
import contextlib
import time

import pytest

from windlass import clock


def test_hours_pass_without_waiting_and_in_order() -> None:
    virtual = clock.VirtualClock(now_s=1000.0)
    seen: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await virtual.sleep(seconds)
        seen.append((name, virtual.monotonic_s()))

    async def scenario() -> None:
        await asyncio.gather(sleeper("slow", 7200.0), sleeper("fast", 1.5), sleeper("at once", 0.0))

    virtual.run(scenario())

    assert seen == [("at once", 0.0), ("fast", 1.5), ("slow", 7200.0)]
    assert virtual.now_s() == 8200.0


def test_whoever_sleeps_until_a_time_gets_there_however_little_is_left() -> None:
    virtual = clock.VirtualClock()
    seen: list[int] = []

    async def scenario() -> None:
        for number in range(1, 500):
            end_s = virtual.monotonic_s() + number / 7.0 + 1e4
            await virtual.sleep(end_s - virtual.monotonic_s() - 1e-10)
            turns = 0
            while (left_s := end_s - virtual.monotonic_s()) > 0.0:
                asyncio.get_running_loop().call_soon(seen.append, number)  # others go on meanwhile
                await virtual.sleep(left_s)
                turns += 1
                assert turns < 5

    virtual.run(scenario())

    assert seen


def test_timers_of_asyncio_follow_the_virtual_clock() -> None:
    virtual = clock.VirtualClock()

    async def scenario() -> float:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(60.0):
                await asyncio.Event().wait()
        return virtual.monotonic_s()

    assert virtual.run(scenario()) == 60.0


def test_a_corrected_wall_clock_disturbs_nothing_that_waits() -> None:
    virtual = clock.VirtualClock(now_s=1000.0)

    async def scenario() -> None:
        sleeping = asyncio.create_task(virtual.sleep(10.0))
        await virtual.sleep(4.0)
        virtual.set_wall(0.0)
        await sleeping

    virtual.run(scenario())

    assert virtual.monotonic_s() == 10.0
    assert virtual.now_s() == 6.0


def test_time_stands_still_while_anything_can_run() -> None:
    virtual = clock.VirtualClock()

    async def scenario() -> float:
        for _ in range(1000):
            await asyncio.sleep(0)
        return virtual.monotonic_s()

    assert virtual.run(scenario()) == 0.0


def test_a_thread_is_waited_for_while_nothing_is_due() -> None:
    virtual = clock.VirtualClock()

    async def scenario() -> int:
        return await asyncio.to_thread(sum, range(100_000))

    assert virtual.run(scenario()) == sum(range(100_000))
    assert virtual.monotonic_s() == 0.0


def test_waiting_for_nothing_at_all_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_STALL_S", 0.0)

    async def scenario() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="nothing is due"):
        clock.VirtualClock().run(scenario())


def test_the_real_clock_goes_on() -> None:
    real = clock.RealClock()

    async def scenario() -> tuple[float, float]:
        before = real.monotonic_s()
        await real.sleep(0.0)
        return before, real.monotonic_s()

    before, after = asyncio.run(scenario())
    assert after >= before
    assert real.now_s() > 1.7e9


def test_what_is_done_in_time_counts_and_what_is_not_is_cancelled() -> None:
    virtual = clock.VirtualClock()
    ended: list[float] = []

    async def act(seconds: float) -> str:
        try:
            await virtual.sleep(seconds)
            return "done"
        finally:
            ended.append(virtual.monotonic_s())

    async def scenario() -> None:
        assert await clock.run_with_timeout(virtual, 10.0, act(4.0)) == "done"
        with pytest.raises(TimeoutError):
            await clock.run_with_timeout(virtual, 10.0, act(40.0))

    virtual.run(scenario())
    assert ended == [4.0, 14.0]


def test_a_failure_in_time_is_raised() -> None:
    virtual = clock.VirtualClock()

    async def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        virtual.run(clock.run_with_timeout(virtual, 1.0, fail()))


def test_time_stands_still_while_a_thread_works() -> None:
    virtual = clock.VirtualClock()

    async def scenario() -> float:
        passing = asyncio.create_task(virtual.sleep(3600.0))
        await asyncio.to_thread(time.sleep, 0.05)
        passing.cancel()
        return virtual.monotonic_s()

    assert virtual.run(scenario()) == 0.0
