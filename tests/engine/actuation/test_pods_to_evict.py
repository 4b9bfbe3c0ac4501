import pytest

from tests.engine.scale_down.builders import AGENT, pod
from windlass.engine.actuation import pods_to_evict
from windlass.engine.actuation.pods_to_evict import ENABLE_DS_EVICTION


@pytest.mark.parametrize("by_default", [True, False])
@pytest.mark.parametrize(("own", "expected"), [(None, None), ("true", True), ("false", False), ("yes", False)])
def test_a_pod_may_decide_for_itself(own: str | None, expected: bool | None, by_default: bool) -> None:
    annotations = {} if own is None else {ENABLE_DS_EVICTION: own}
    evicted = pods_to_evict.is_daemonset_pod_evicted(pod("p", "n", owner=AGENT, annotations=annotations), by_default)
    assert evicted is (by_default if expected is None else expected)
