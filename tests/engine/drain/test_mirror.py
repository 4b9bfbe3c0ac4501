import pytest

from tests.engine.drain import builders
from windlass.engine.drain import mirror, outcome


@pytest.mark.parametrize("value", ["hash", ""])
def test_mirror_pod_is_left_whatever_the_annotation_says(value: str) -> None:
    found = mirror.decide(builders.pod(annotations={"kubernetes.io/config.mirror": value}), builders.context())
    assert found is not None
    assert found.action is outcome.Action.SKIP


def test_other_pods_are_no_concern() -> None:
    assert mirror.decide(builders.pod(), builders.context()) is None
