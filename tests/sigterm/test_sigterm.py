"""A fixed share of what `python -m tests.sigterm` does: it tells how long a process takes to end, this does not."""

import random
from pathlib import Path

import pytest

from tests.sigterm import __main__ as sigterm
from tests.sigterm import cluster


@pytest.mark.parametrize("seed", [1, 4])
async def test_a_process_that_is_asked_to_end_releases_the_lease_and_writes_nothing_more(
    seed: int, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    trial = await sigterm.run(cluster.Noted(6, 4), random.Random(seed), is_large=False, log=log)
    assert [one for one in trial.wrong if " to end" not in one] == [], log.read_text()
