import asyncio
import os
import signal
import subprocess
import sys

import pytest

from windlass.runtime import shutdown


def ask(which: signal.Signals = signal.SIGTERM) -> None:
    os.kill(os.getpid(), which)


async def test_a_program_that_ends_by_itself_is_left_alone() -> None:
    async def main() -> None:
        await asyncio.sleep(0)

    assert await shutdown.run(main())


async def test_what_a_program_raises_is_raised() -> None:
    async def main() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await shutdown.run(main())


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_a_program_put_things_in_order(which: signal.Signals) -> None:
    steps: list[str] = []

    async def main() -> None:
        ask(which)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("released")

    assert await shutdown.run(main())
    assert steps == ["released"]


async def test_a_second_signal_ends_a_program_that_does_not_end() -> None:
    async def main() -> None:
        ask()
        try:
            await asyncio.Event().wait()
        finally:
            ask()
            await asyncio.Event().wait()

    assert not await shutdown.run(main())


async def test_a_program_that_takes_too_long_to_end_is_given_up() -> None:
    async def main() -> None:
        ask()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.Event().wait()

    assert not await shutdown.run(main(), grace_s=0.0)


async def test_failing_while_ending_is_not_good_order() -> None:
    async def main() -> None:
        ask()
        try:
            await asyncio.Event().wait()
        finally:
            raise ZeroDivisionError

    assert not await shutdown.run(main())


async def test_signals_mean_what_they_meant_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def main() -> None:
        await asyncio.sleep(0)

    await shutdown.run(main())
    assert signal.getsignal(signal.SIGTERM) == before


STUCK_THREAD = """
import asyncio, os, signal, threading
from windlass.runtime import loop, shutdown

async def main():
    ask = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM))
    {how}

raise SystemExit(0 if shutdown.execute(main(), grace_s=0.3) else 1)
"""


@pytest.mark.parametrize(
    "how",
    [
        "ask.start(); await loop.run_in_thread(threading.Event().wait)",
        "ask.start(); await asyncio.to_thread(threading.Event().wait)",
        "ask.start(); threading.Event().wait()",
        "asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)",
    ],
    ids=["waited for", "left behind", "the event loop itself", "after the end"],
)
def test_a_process_ends_though_a_thread_of_it_does_not(how: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", STUCK_THREAD.format(how=how)], timeout=60, capture_output=True, text=True, check=False
    )
    assert ended.returncode == shutdown.EXIT_STUCK, ended.stderr
    assert "timeout_s=0.8" in ended.stderr


def test_a_process_whose_threads_end_ends_by_itself() -> None:
    how = "ask.start(); await loop.run_in_thread(lambda: threading.Event().wait(0.4))"
    ended = subprocess.run(
        [sys.executable, "-c", STUCK_THREAD.format(how=how).replace("=0.3", "=20")], timeout=60, check=False
    )
    assert ended.returncode == 0
