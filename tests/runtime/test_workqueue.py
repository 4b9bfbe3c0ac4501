import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import clock
from windlass.runtime import workqueue
from windlass.runtime.workqueue import WorkQueue, WorkQueueSettings

Scenario = Callable[[clock.VirtualClock], Awaitable[None]]


def play(scenario: Scenario) -> None:
    virtual = clock.VirtualClock()

    async def main() -> None:
        await scenario(virtual)

    virtual.run(main())


async def drain(queue: WorkQueue[str]) -> list[str]:
    """What can be got without waiting."""
    got = []
    while len(queue):
        got.append(await queue.get())
        queue.done(got[-1])
    return got


def test_keys_come_in_order_and_once_however_often_they_were_added() -> None:
    async def scenario(time: clock.VirtualClock) -> None:
        queue: WorkQueue[str] = WorkQueue(time)
        for key in "abacab":
            queue.add(key)
        assert await drain(queue) == ["a", "b", "c"]

    play(scenario)


def test_a_key_that_is_added_while_it_is_handled_comes_again_afterwards() -> None:
    async def scenario(time: clock.VirtualClock) -> None:
        queue: WorkQueue[str] = WorkQueue(time)
        queue.add("a")
        assert await queue.get() == "a"
        queue.add("a")
        queue.add("a")
        assert len(queue) == 1, "it waits for its own handling to end"
        queue.done("a")
        assert await drain(queue) == ["a"]
        assert len(queue) == 0

    play(scenario)


def test_whoever_waits_gets_the_next_key() -> None:
    async def scenario(time: clock.VirtualClock) -> None:
        queue: WorkQueue[str] = WorkQueue(time)
        waiting = [asyncio.create_task(queue.get()) for _ in range(2)]
        await time.sleep(1)
        queue.add("a")
        queue.add("b")
        assert sorted(await asyncio.gather(*waiting)) == ["a", "b"]

    play(scenario)


def test_a_key_for_later_comes_at_the_earliest_time_named_and_once() -> None:
    async def scenario(time: clock.VirtualClock) -> None:
        queue: WorkQueue[str] = WorkQueue(time)
        queue.add_after("a", 10.0)
        queue.add_after("a", 4.0)
        queue.add_after("a", 20.0)
        queue.add_after("b", 0.0)
        assert await queue.get() == "b"
        queue.done("b")
        assert await queue.get() == "a"
        assert time.monotonic_s() == 4.0
        queue.done("a")
        await time.sleep(30)
        assert len(queue) == 0

    play(scenario)


def test_who_waits_for_a_later_key_gets_an_earlier_one_first() -> None:
    async def scenario(time: clock.VirtualClock) -> None:
        queue: WorkQueue[str] = WorkQueue(time)
        queue.add_after("late", 100.0)
        waiting = asyncio.create_task(queue.get())
        await time.sleep(1)
        queue.add_after("soon", 1.0)
        assert await waiting == "soon"
        assert time.monotonic_s() == 2.0

    play(scenario)


def test_failures_come_back_later_and_later_until_forgotten() -> None:
    async def scenario(time: clock.VirtualClock) -> None:
        queue: WorkQueue[str] = WorkQueue(time, WorkQueueSettings(first_s=1.0, limit_s=10.0))
        waits = []
        for _ in range(6):
            waits.append(queue.retry("a"))
            assert await queue.get() == "a"
            queue.done("a")
        assert waits == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
        assert time.monotonic_s() == sum(waits)
        queue.forget("a")
        assert queue.failures("a") == 0
        assert queue.retry("a") == 1.0

    play(scenario)


def test_failures_of_all_keys_together_keep_to_a_rate() -> None:
    async def scenario(time: clock.VirtualClock) -> None:
        queue: WorkQueue[int] = WorkQueue(time, WorkQueueSettings(first_s=0.001, qps=10.0, burst=2))
        waits = [queue.retry(key) for key in range(4)]
        assert waits == [0.001, 0.001, 0.1, 0.2]

    play(scenario)


def test_workers_handle_keys_and_survive_what_fails(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(time: clock.VirtualClock) -> None:
        queue: WorkQueue[str] = WorkQueue(time, WorkQueueSettings(first_s=1.0))
        seen: list[tuple[str, float]] = []

        async def handle(key: str) -> float | None:
            seen.append((key, time.monotonic_s()))
            if key == "bad" and len(seen) < 4:
                raise ZeroDivisionError
            return 60.0 if key == "again" and time.monotonic_s() < 60 else None

        for key in ("good", "bad", "again"):
            queue.add(key)
        working = asyncio.create_task(workqueue.run_workers(queue, handle, workers=2))
        await time.sleep(100)
        working.cancel()
        assert seen == [("good", 0.0), ("bad", 0.0), ("again", 0.0), ("bad", 1.0), ("again", 60.0)]

    play(scenario)
    assert "key=bad failures=1 retry_s=1" in caplog.text


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("abc")),
        st.tuples(st.just("after"), st.sampled_from("abc")),
        st.tuples(st.just("retry"), st.sampled_from("abc")),
        st.tuples(st.just("sleep"), st.sampled_from("abc")),
    ),
    max_size=40,
)


@given(steps, st.integers(1, 3), st.sampled_from([0.0, 0.5, 3.0]))
def test_no_key_is_handled_twice_at_once_and_none_is_lost(
    added: list[tuple[str, str]], workers: int, lasts_s: float
) -> None:
    async def scenario(time: clock.VirtualClock) -> None:
        queue: WorkQueue[str] = WorkQueue(time)
        under_way: set[str] = set()
        last_added: dict[str, float] = {}
        last_begun: dict[str, float] = {}

        async def handle(key: str) -> float | None:
            assert key not in under_way
            under_way.add(key)
            last_begun[key] = time.monotonic_s()
            await time.sleep(lasts_s)
            under_way.discard(key)
            return None

        working = asyncio.create_task(workqueue.run_workers(queue, handle, workers))
        for what, key in added:
            if what == "sleep":
                await time.sleep(0.7)
                continue
            if what == "add":
                queue.add(key)
            elif what == "after":
                queue.add_after(key, 1.0)
            else:
                queue.retry(key)
            last_added[key] = time.monotonic_s()
        await time.sleep(2000)
        assert not working.done()
        working.cancel()
        assert last_begun.keys() == last_added.keys()
        assert all(last_begun[key] >= at_s for key, at_s in last_added.items())

    play(scenario)
