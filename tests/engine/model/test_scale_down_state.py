import pytest

from windlass.engine.model.scale_down_state import UnremovableNode, UnremovableReason


@pytest.mark.parametrize("reason", UnremovableReason)
def test_every_reason_can_be_said(reason: UnremovableReason) -> None:
    assert str(UnremovableNode("n0", reason, 3.0, 5.0)).startswith("n0 ")


def test_the_numbers_that_decided_are_told() -> None:
    said = str(UnremovableNode("n0", UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH, 420.0, 600.0))
    assert said == "n0 has been unneeded for 420 s, and must be for more than 600 s"
