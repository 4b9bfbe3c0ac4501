"""`explain` and the loop agree on random clusters; `python -m tests.explain` tries more of them."""

from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest

from tests.explain import agreement, clusters
from windlass.engine.loop import scale_up_context
from windlass.engine.loop_state import ScaleUpContext
from windlass.explain import explain_context

EXAMPLES = 24
FOUND = (101001249, 102000987, 301001685, 303001542, 501002686)
"""Clusters in which they did not agree once: pods that a later round helps, pods of one shape of which an earlier round
placed some, a pod that is nominated for a node being drained, and a round that could not be carried out."""
NOTICED = (8, 9, 11, 17)
"""Clusters in which buffers or requests decide on a pending pod."""


def find(number: int) -> list[str]:
    return [item for at in clusters.lives(number) for item in agreement.find_disagreements(at, Counter())]


@pytest.mark.parametrize("number", [*range(EXAMPLES), *FOUND])
def test_explain_says_of_every_pending_pod_and_every_node_what_the_loop_decided(number: int) -> None:
    assert not find(number)


def test_a_context_without_buffers_requests_and_proactive_pods_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def set_up_otherwise(at: explain_context.ExplainContext) -> AbstractContextManager[ScaleUpContext]:
        plain = replace(at.settings.injection, capacity_buffer_pod_injection_enabled=False)
        asked = replace(at.settings.provisioning_requests, enable_provisioning_requests=False)
        settings = replace(at.settings, injection=plain, provisioning_requests=asked)
        return scale_up_context(at.observation, at.memory, settings, at.now_s)

    monkeypatch.setattr(explain_context.ExplainContext, "scale_up", set_up_otherwise)
    assert any(find(number) for number in NOTICED)
