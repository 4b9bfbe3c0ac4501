import pytest

from tests.engine.scale_down.builders import NOW_S, PEER, group, with_scale_down
from windlass.engine.model.scale_down_state import ScaleActivity
from windlass.engine.scale_down import cooldown

DELAYS = with_scale_down(
    PEER,
    scale_down_delay_after_add_s=100.0,
    scale_down_delay_after_delete_s=20.0,
    scale_down_delay_after_failure_s=50.0,
).scale_down
GROUP_OF = {"a-0": group("a", 2), "a-1": group("a", 2), "b-0": group("b", 1)}


@pytest.mark.parametrize(
    ("activity", "ends_at_s"),
    [
        (ScaleActivity(), float("-inf")),
        (ScaleActivity(added_s=0.0), 100.0),
        (ScaleActivity(deleted_s=90.0), 110.0),
        (ScaleActivity(added_s=0.0, deleted_s=90.0), 110.0),
        (ScaleActivity(added_s=0.0, deleted_s=90.0, failed_s=70.0), 120.0),
    ],
)
def test_the_longest_pause_counts(activity: ScaleActivity, ends_at_s: float) -> None:
    assert cooldown.cooldown_ends_at_s(activity, DELAYS) == ends_at_s


def test_only_nodes_of_the_group_concerned_pause() -> None:
    names = ["a-0", "b-0", "a-1", "alone"]
    activities = {"a": ScaleActivity(deleted_s=NOW_S - 19), "b": ScaleActivity(deleted_s=NOW_S - 20)}
    assert cooldown.filter_cooling_down(names, GROUP_OF, activities, DELAYS, NOW_S) == ["b-0", "alone"]
    assert cooldown.filter_cooling_down(names, GROUP_OF, activities, DELAYS, NOW_S + 1) == names
