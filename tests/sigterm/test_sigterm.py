"""A fixed share of what `python -m tests.sigterm` does: it tells how long a process takes to end, this does not."""

import random
from pathlib import Path

import pytest

from tests.sigterm import __main__ as sigterm
from tests.sigterm import cluster
from windlass.runtime import shutdown

DECIDES = "a decision has begun"
STUCK = f"""
import sys, threading
from windlass.autoscaler import autoscaler
from windlass.cli.autoscaler import main

def decide(*_):
    print("{DECIDES}", flush=True)
    threading.Event().wait()

autoscaler.decide = decide
main(sys.argv[2:])
"""


class AtOnce(random.Random):
    """Asks it to end as soon as it leads."""

    def choice(self, seq: object) -> str:  # type: ignore[override]
        return "later"

    def uniform(self, a: float, b: float) -> float:
        return 0.0


@pytest.mark.parametrize("seed", [1, 4])
async def test_a_process_that_is_asked_to_end_releases_the_lease_and_writes_nothing_more(
    seed: int, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    trial = await sigterm.run(cluster.Noted(6, 4), random.Random(seed), is_large=False, log=log)
    assert [item for item in trial.wrong if " to end" not in item] == [], log.read_text()


async def test_a_process_whose_decision_does_not_end_releases_the_lease_and_ends(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program, expected = ("-c", STUCK), (shutdown.EXIT_STUCK,)
    trial = await sigterm.run(
        cluster.Noted(6, 4), AtOnce(), is_large=False, log=log, program=program, expected=expected, after=DECIDES
    )
    assert [item for item in trial.wrong if " to end" not in item] == [], log.read_text()
    assert "leader did not stop" in log.read_text()
