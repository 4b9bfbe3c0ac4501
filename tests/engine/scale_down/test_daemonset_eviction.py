import pytest

from tests.engine.scale_down.builders import AGENT, pod
from windlass.engine.scale_down import daemonset_eviction
from windlass.engine.scale_down.daemonset_eviction import ENABLE_EVICTION


@pytest.mark.parametrize("by_default", [True, False])
@pytest.mark.parametrize(("own", "expected"), [(None, None), ("true", True), ("false", False), ("yes", False)])
def test_a_pod_may_decide_for_itself(own: str | None, expected: bool | None, by_default: bool) -> None:
    annotations = {} if own is None else {ENABLE_EVICTION: own}
    evicted = daemonset_eviction.is_evicted(pod("p", "n", owner=AGENT, annotations=annotations), by_default)
    assert evicted is (by_default if expected is None else expected)
