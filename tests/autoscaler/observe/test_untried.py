from typing import Any

import msgspec
import pytest

from windlass import clock
from windlass.autoscaler.observe.untried import Untried, is_tried
from windlass.kube.models import pods

NEVER = float("-inf")
PENDING = {"phase": "Pending"}

Json = dict[str, Any]


def pod(status: Json | None = None, spec: str = "{}") -> pods.Pod:
    text = msgspec.json.encode(
        {"metadata": {"name": "web", "uid": "1"}, "status": status or {}, "spec": msgspec.Raw(spec.encode())}
    )
    return msgspec.json.decode(text, type=pods.Pod)


def said(status: str, reason: str) -> Json:
    return {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": status, "reason": reason}]}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (pod(), False),
        (pod(PENDING), False),
        (pod(said("False", "Unschedulable")), True),
        (pod(said("False", "SchedulingGated")), True),
        (pod(said("True", "")), True),
        (pod(PENDING, '{"nodeName": "n1"}'), True),
        (pod({"phase": "Running"}), True),
    ],
    ids=["new", "pending", "unschedulable", "gated", "bound", "told where to run", "running"],
)
def test_a_pod_is_tried_once_a_scheduler_spoke_of_it_or_need_not(found: pods.Pod, expected: bool) -> None:
    assert is_tried(found) is expected


def test_when_a_pod_came_is_known_after_it_was_tried() -> None:
    time = clock.Virtual()
    untried = Untried(time)

    async def main() -> None:
        untried.put("a", pod())
        await time.sleep(1.0)
        untried.put("b", pod())
        await time.sleep(1.0)
        untried.put("a", pod(said("False", "Unschedulable")))
        assert untried.came_s == 0.0
        untried.put("c", pod(said("False", "Unschedulable")))
        assert untried.came_s == 2.0, "it was tried before anyone saw it"

    time.run(main())


def test_the_latest_pod_says_how_long_all_are_awaited() -> None:
    time = clock.Virtual()
    untried = Untried(time)

    async def main() -> None:
        assert untried.awaited_until_s() == NEVER
        untried.put("a", pod())
        await time.sleep(1.0)
        untried.put("b", pod())
        untried.put("a", pod(PENDING))  # it says more of itself, and came when it came
        assert untried.awaited_until_s() == 6.0
        untried.put("b", pod(said("False", "Unschedulable")))
        assert untried.awaited_until_s() == 5.0
        untried.remove("a")
        assert untried.awaited_until_s() == NEVER

    time.run(main())


def test_a_pod_that_nobody_tries_is_given_up() -> None:
    time = clock.Virtual()
    untried = Untried(time)

    async def main() -> None:
        untried.put("a", pod())
        await time.sleep(5.0)
        assert untried.awaited_until_s() == NEVER
        untried.put("b", pod())
        assert untried.awaited_until_s() == 10.0

    time.run(main())
