import itertools

import pytest

from tests.engine.drain import builders
from windlass.engine.drainability import pod_status
from windlass.engine.model import drainability

ENDED = {("Failed", policy) for policy in ("Always", "OnFailure", "Never")} | {
    ("Succeeded", "OnFailure"),
    ("Succeeded", "Never"),
}


@pytest.mark.parametrize(
    ("phase", "policy"),
    list(
        itertools.product(
            ["Pending", "Running", "Succeeded", "Failed", "Unknown"],
            ["Always", "OnFailure", "Never"],
        )
    ),
)
def test_only_pods_that_are_not_started_again_have_ended(phase: str, policy: str) -> None:
    found = pod_status.check_terminal(builders.pod(phase=phase, restart_policy=policy), builders.context())
    assert (found is not None) is ((phase, policy) in ENDED)
    assert found is None or found.action is drainability.DrainAction.DRAIN
