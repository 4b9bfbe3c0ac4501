"""SIGTERM at random moments of `windlass autoscaler`: `python -m tests.sigterm --times 100 --large 10`.

Of each process it is asked that it ends within 5 s, that the lease is free then, that nothing was done after the signal
but tell what was done before it, and that nothing at all was written after the lease was released. `--large`: how many
of them decide on 15,000 nodes meanwhile. Exit code 0 if all is well.
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.sigterm import cluster
from windlass import clock
from windlass.apiserver import embedded_server

END_S = 5.0
HEARD = "shutting down: signal=SIGTERM"
"""What a process logs when it gets to hear of the signal; on a busy machine that is some time after it was sent."""
IN_FLIGHT_S = 0.5
"""After that: what was sent before it may still arrive."""
LARGE = 15_000

_FLAGS = (
    "--cloud-provider=clusterapi",
    "--address=127.0.0.1:0",
    "--dashboard-address=",
    "--scan-interval=1s",
    "--scale-down-unneeded-time=1s",
    "--scale-down-delay-after-add=0s",
    "--node-delete-delay-after-taint=0s",
    "--kube-client-qps=100",
    "--kube-client-burst=200",
    "-v=1",
)
_KUBECONFIG = """
{{"apiVersion": "v1", "kind": "Config", "current-context": "c",
  "clusters": [{{"name": "c", "cluster": {{"server": "{url}"}}}}], "users": [{{"name": "u", "user": {{}}}}],
  "contexts": [{{"name": "c", "context": {{"cluster": "c", "user": "u"}}}}]}}
"""


@dataclass
class Trial:
    """One process, and what was wrong with its end."""

    moment: str
    took_s: float
    code: int
    led: bool
    wrong: list[str]


async def run(
    noted: cluster.Noted,
    chance: random.Random,
    *,
    is_large: bool,
    log: Path,
    program: Sequence[str] = ("-m", "windlass"),
    expected: Sequence[int] = (0, -signal.SIGTERM),
    after: str = "",
) -> Trial:
    """Start a process, let it work, end it, and look.

    `expected` exit codes: a process that has not begun to listen is ended by the signal itself. `after`: not before
    this stands in its log.
    """
    async with embedded_server.HttpServer(noted, clock.RealClock()) as serving:  # type: ignore[arg-type]
        config = log.with_suffix(".kubeconfig")
        config.write_text(_KUBECONFIG.format(url=serving.url))
        first, environment = len(noted.writes), {**os.environ, "PYTHONUNBUFFERED": "1"}
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable, *program, "autoscaler", f"--kubeconfig={config}", *_FLAGS,
                stdout=output, stderr=output, env=environment,
            )  # fmt: skip
        try:
            await _wait_logged(log, after, process)
            moment = await _wait_moment(noted, chance, first, is_large=is_large)
            asked_s = time.monotonic()
            led = any(write.holder for write in noted.writes[first:] if write.status < 400)
            if process.returncode is not None:
                return Trial(moment, 0.0, process.returncode, led, [f"it ended by itself: {process.returncode}"])
            process.send_signal(signal.SIGTERM)
            heard_s = await _wait_logged(log, HEARD, process)
            code = await asyncio.wait_for(process.wait(), 60.0)
            took_s = time.monotonic() - asked_s
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        await asyncio.sleep(0.3)
        return Trial(
            moment,
            took_s,
            code,
            led,
            _evaluate(noted, first, heard_s, took_s) + ([] if code in expected else [f"exit code {code}"]),
        )


async def _wait_logged(log: Path, text: str, process: asyncio.subprocess.Process) -> float:
    """When this stands in the log, or the process has ended."""
    until_s = time.monotonic() + 120.0
    while text not in log.read_text(errors="replace") and process.returncode is None and time.monotonic() < until_s:
        await asyncio.sleep(0.01)
    return time.monotonic()


async def _wait_moment(noted: cluster.Noted, chance: random.Random, first: int, *, is_large: bool) -> str:
    """Let it get as far as chance has it, and a little further."""
    kind = chance.choice(("start", "lease", "writes", "later", "deciding" if is_large else "later"))
    until_s = time.monotonic() + (120.0 if is_large else 30.0)

    async def until(what: str, count: int) -> None:
        while time.monotonic() < until_s:
            if sum(what in f"{write.method} {write.path}" for write in noted.writes[first:]) >= count:
                return
            await asyncio.sleep(0.002)

    if kind == "start":
        rest_s = chance.uniform(0.6, 2.5)
    elif kind == "lease":
        await until("/leases", 1)
        rest_s = chance.uniform(0.0, 0.5)
    elif kind == "writes":
        await until("", chance.randint(2, 12))
        rest_s = chance.uniform(0.0, 0.05)
    elif kind == "deciding":
        await until("configmaps", 1)  # the status: it leads, and lists come next
        rest_s = chance.uniform(3.0, 25.0)
    else:
        await until("/leases", 1)
        rest_s = chance.uniform(0.5, 6.0)
    await asyncio.sleep(rest_s)
    return f"{kind} + {rest_s:.2f} s"


def _evaluate(noted: cluster.Noted, first: int, heard_s: float, took_s: float) -> list[str]:
    wrong = []
    if took_s > END_S:
        wrong.append(f"it took {took_s:.1f} s to end")
    if noted.holder():
        wrong.append(f"{noted.holder()} still holds the lease")
    later = [write for write in noted.writes[first:] if write.at_s > heard_s + IN_FLIGHT_S and not write.is_report]
    if later:
        wrong.append(f"done after the signal: {later[:3]}")
    released = [number for number, one in enumerate(noted.writes) if one.is_release and number >= first]
    if released and released[-1] != len(noted.writes) - 1:
        wrong.append(f"written after the release: {noted.writes[released[-1] + 1 :][:3]}")
    return wrong


async def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sigterm", description=__doc__)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--large", type=int, default=0, help=f"so many of these with {LARGE} nodes (default 0)")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    chance, wrong, slowest_s = random.Random(asked.seed), 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        large = cluster.Noted(LARGE, 200) if asked.large else None
        for number in range(asked.times):
            is_large = number < asked.large
            noted = large if is_large and large is not None else cluster.Noted(6, 4)
            log = Path(folder) / f"{number}.log"
            trial = await run(noted, chance, is_large=is_large, log=log)
            slowest_s = max(slowest_s, trial.took_s)
            said = "; ".join(trial.wrong) or "well"
            size = "large" if is_large else "small"
            print(f"{number}: {size}, {trial.moment}, led {trial.led}: {trial.took_s:.2f} s, {said}", flush=True)
            if trial.wrong:
                wrong += 1
                print(log.read_text(errors="replace")[-3000:], flush=True)
    print(f"{asked.times} times, {wrong} not well, slowest {slowest_s:.2f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
