import itertools

import pytest

from tests.engine.drain import builders
from windlass.engine.drain import outcome, terminal

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
    found = terminal.decide(builders.pod(phase=phase, restart_policy=policy), builders.context())
    assert (found is not None) is ((phase, policy) in ENDED)
    assert found is None or found.action is outcome.Action.DRAIN
