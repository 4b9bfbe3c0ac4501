"""Anyone may write at any time: both objects end up equal, no update is lost, and no writing goes on.

`make long KIND=races` draws a thousand histories; the usual run a share of them.
"""

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.controllers.openshift.machineset_sync import machine_set_pairs, race_histories
from tests.controllers.openshift.machineset_sync.machine_set_pairs import World

HISTORIES = int(os.environ.get("WINDLASS_RACES", "60"))
WAITS_S = st.sampled_from([0.0, 0.02, 0.3, 0.7, 3.0, 30.0])
WHAT = st.sampled_from(
    ["autoscaler", "autoscaler", "edit", "edit", "apply", "scale", "bounds", "label", "migrate", "restart"]
)
STEPS = st.lists(st.builds(race_histories.Step, WHAT, st.integers(0, 4), WAITS_S), min_size=1, max_size=12)


@settings(max_examples=HISTORIES, deadline=None, suppress_health_check=list(HealthCheck))
@given(first=st.sampled_from(["MachineAPI", "ClusterAPI"]), steps=STEPS, seed=st.integers(0, 2**32))
def test_whoever_writes_when_both_end_up_equal_and_nothing_is_lost(
    first: str, steps: list[race_histories.Step], seed: int
) -> None:
    async def story(scene: World) -> None:
        await race_histories.play(scene, first, steps, seed)

    machine_set_pairs.play(story)
