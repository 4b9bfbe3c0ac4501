"""--bypassed-scheduler-names: pods that their scheduler has not processed trigger scale-ups; others wait for it.

Pods are read from objects as the API serves them, so that the condition decides.
"""

from typing import Any

import pytest

from tests.engine.loop.builders import (
    BOTH,
    PEER,
    WINDLASS,
    choose,
    decide_once,
    group,
    nodes,
    observe,
    running,
    sizes,
)
from windlass.autoscaler.readers import pods
from windlass.engine.model import facts
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.kube import scheme
from windlass.kube.models import pods as pod_models

MINE = "batch-scheduler"
SINCE = "1970-01-12T13:45:40Z"
behaviors = pytest.mark.parametrize("settings", BOTH, ids=["cluster-autoscaler", "windlass"])


def bypass(settings: Settings) -> Settings:
    return choose(settings, "pods", bypassed_scheduler_names=(MINE,))


def pending(condition: dict[str, Any] | None, name: str = "p", scheduler: str = MINE, **spec: Any) -> facts.Pod:
    """A pod with this PodScheduled condition, or none."""
    conditions = [] if condition is None else [{"type": "PodScheduled", "lastTransitionTime": SINCE, **condition}]
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"namespace": "default", "name": name, "uid": f"uid-{name}", "creationTimestamp": SINCE}
    found = {
        "metadata": metadata,
        "spec": {"schedulerName": scheduler, "containers": [container], **spec},
        "status": {"phase": "Pending", "conditions": conditions},
    }
    return pods.PodReader(remembered=10).read(scheme.decode_as(pod_models.Pod, found))


def observe_pods(*waiting: facts.Pod) -> Observation:
    there = nodes("g", 1)
    return observe([group("g", there)], there, [running("full", "g-0", 4000), *waiting])


@behaviors
@pytest.mark.parametrize(
    ("condition", "triggers"),
    [
        (None, True),
        ({"status": "False"}, True),
        ({"status": "False", "reason": "Unschedulable"}, True),
        ({"status": "False", "reason": "SchedulerError"}, False),
        ({"status": "False", "reason": "SchedulingGated"}, False),
        ({"status": "Unknown"}, False),
        ({"status": "True"}, False),
    ],
    ids=lambda value: str(value.get("reason", value["status"])) if isinstance(value, dict) else None,
)
def test_a_pod_of_a_bypassed_scheduler_triggers_until_the_scheduler_has_said_otherwise(
    settings: Settings, condition: dict[str, Any] | None, triggers: bool
) -> None:
    decision = decide_once(observe_pods(pending(condition)), bypass(settings))
    assert sizes(decision) == ({"g": 2} if triggers else {})


@behaviors
def test_a_pod_whose_scheduler_is_not_bypassed_waits_for_it(settings: Settings) -> None:
    decision = decide_once(observe_pods(pending(None, scheduler="default-scheduler")), bypass(settings))
    assert sizes(decision) == {}


def test_a_pod_whose_gates_were_lifted_counts_like_its_equals_in_windlass() -> None:
    """The condition says SchedulingGated until the scheduler has tried the pod."""
    lifted = [pending({"status": "False", "reason": "SchedulingGated"}, f"lifted-{number}") for number in range(4)]
    other = pending({"status": "False", "reason": "Unschedulable"}, "other", priority=7)
    equal = pending({"status": "False", "reason": "Unschedulable"}, "equal")
    assert sizes(decide_once(observe_pods(*lifted, other), bypass(WINDLASS))) == {"g": 2}
    assert sizes(decide_once(observe_pods(*lifted, equal), bypass(WINDLASS))) == {"g": 3}
    assert sizes(decide_once(observe_pods(*lifted, equal), bypass(PEER))) == {"g": 2}
