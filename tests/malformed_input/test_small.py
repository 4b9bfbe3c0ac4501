"""A few hundred malformed objects through real processes; `python -m tests.malformed_input` is the large version."""

import asyncio
from pathlib import Path

from tests.malformed_input import harness

_PATIENT = harness.Settings(health_within_s=30.0, may_pause=True, patience_s=180.0)
"""No time is asserted here: the machine may be busy."""


def test_an_autoscaler_survives_malformed_objects_of_every_kind(tmp_path: Path) -> None:
    report, failure, _ = asyncio.run(harness.play(tmp_path, 400, seed=7, settings=_PATIENT, batch=200))
    assert failure == ""
    assert report.objects == 400
    assert report.admitted
    assert report.ordinary
