import pytest

from tests.engine.drain import builders
from windlass.engine.drainability import pod_status
from windlass.engine.model import drainability


@pytest.mark.parametrize("value", ["hash", ""])
def test_mirror_pod_is_left_whatever_the_annotation_says(value: str) -> None:
    found = pod_status.check_mirror(
        builders.pod(annotations={"kubernetes.io/config.mirror": value}), builders.context()
    )
    assert found is not None
    assert found.action is drainability.DrainAction.SKIP


def test_other_pods_are_no_concern() -> None:
    assert pod_status.check_mirror(builders.pod(), builders.context()) is None
