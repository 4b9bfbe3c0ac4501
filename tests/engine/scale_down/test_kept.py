import pytest

from windlass.engine.scale_down.kept import Kept
from windlass.engine.scale_down.removal import Unremovable


@pytest.mark.parametrize("reason", Unremovable)
def test_every_reason_can_be_said(reason: Unremovable) -> None:
    assert str(Kept("n0", reason, 3.0, 5.0)).startswith("n0 ")


def test_the_numbers_that_decided_are_told() -> None:
    said = str(Kept("n0", Unremovable.NOT_UNNEEDED_LONG_ENOUGH, 420.0, 600.0))
    assert said == "n0 has been unneeded for 420 s, and must be for more than 600 s"
