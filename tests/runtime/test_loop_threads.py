"""Work in a thread has ended when its caller goes on, cancelled or not."""

import asyncio
import threading

import pytest

from windlass.runtime import loop


async def test_what_the_work_gives_or_raises_comes_back() -> None:
    assert await loop.run_in_thread(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await loop.run_in_thread(lambda: 1 // 0)


@pytest.mark.parametrize("cancellations", [1, 3])
async def test_a_cancellation_waits_for_the_thread(cancellations: int) -> None:
    begun, let_go, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        let_go.wait(30)
        ended.set()
        raise ZeroDivisionError  # nobody wants to know any more

    running = asyncio.create_task(loop.run_in_thread(work))
    await asyncio.to_thread(begun.wait, 30)
    for _ in range(cancellations):
        running.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not running.done()
    let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()
