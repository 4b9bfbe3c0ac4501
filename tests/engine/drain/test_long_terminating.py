import pytest

from tests.engine.drain import builders
from windlass.engine.drainability import pod_status
from windlass.engine.model import drainability


@pytest.mark.parametrize(
    ("grace_s", "deleted_ago_s", "left"),
    [
        (None, 60, False),
        (None, 60.5, True),
        (0.0, 30, False),
        (0.0, 31, True),
        (360.0, 390, False),
        (360.0, 391, True),
        (30.0, -10, False),
    ],
)
def test_pod_is_left_once_its_grace_and_half_a_minute_are_over(
    grace_s: float | None, deleted_ago_s: float, left: bool
) -> None:
    pod = builders.pod(deleted_s=builders.NOW_S - deleted_ago_s, grace_s=grace_s)
    found = pod_status.check_long_terminating(pod, builders.context())
    assert (found is not None) is left
    assert found is None or found.action is drainability.DrainAction.SKIP


def test_pod_that_nobody_deletes_is_no_concern() -> None:
    assert pod_status.check_long_terminating(builders.pod(grace_s=0.0), builders.context()) is None
