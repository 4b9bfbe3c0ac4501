from collections.abc import Collection
from typing import Any

import msgspec
import pytest

from windlass import clock
from windlass.autoscaler.batcher import UnprocessedPods, is_processed
from windlass.kube.models import pods

NEVER, LONG = float("-inf"), float("inf")
PENDING = {"phase": "Pending"}

Json = dict[str, Any]


def nobody(_: Collection[str]) -> list[str]:
    """Controllers that lack pods."""
    return []


def pod(status: Json | None = None, spec: str = "{}", controller: str = "") -> pods.Pod:
    owners = [{"uid": controller, "controller": True}] if controller else []
    metadata = {"name": "web", "uid": "1", "ownerReferences": owners}
    text = msgspec.json.encode({"metadata": metadata, "status": status or {}, "spec": msgspec.Raw(spec.encode())})
    return msgspec.json.decode(text, type=pods.Pod)


def said(status: str, reason: str) -> Json:
    return {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": status, "reason": reason}]}


NO_PLACE = said("False", "Unschedulable")


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
    assert is_processed(found) is expected


def test_when_a_pod_came_is_known_after_it_was_tried() -> None:
    time = clock.VirtualClock()
    untried = UnprocessedPods(time, nobody)

    async def main() -> None:
        untried.put("a", pod(), False)
        await time.sleep(1.0)
        untried.put("b", pod(), False)
        await time.sleep(1.0)
        untried.put("a", pod(NO_PLACE), True)
        assert untried.last_arrival_s == 0.0
        untried.put("c", pod(NO_PLACE), True)
        assert untried.last_arrival_s == 2.0, "it was tried before anyone saw it"

    time.run(main())


def test_the_latest_pod_says_how_long_all_are_awaited() -> None:
    time = clock.VirtualClock()
    untried = UnprocessedPods(time, nobody)

    async def main() -> None:
        assert untried.awaited_until_s(LONG) == NEVER
        untried.put("a", pod(), False)
        await time.sleep(1.0)
        untried.put("b", pod(), False)
        untried.put("a", pod(PENDING), False)  # it says more of itself, and came when it came
        assert untried.awaited_until_s(LONG) == 6.0
        untried.put("b", pod(NO_PLACE), True)
        assert untried.awaited_until_s(LONG) == 5.0
        untried.remove("a")
        assert untried.awaited_until_s(LONG) == NEVER

    time.run(main())


def test_pods_of_a_controller_whose_pods_find_no_place_are_hardly_waited_for() -> None:
    time = clock.VirtualClock()
    untried = UnprocessedPods(time, nobody)

    async def main() -> None:
        for name in "abc":
            untried.put(name, pod(controller="web"), False)
        untried.put("z", pod(controller="other"), False)
        await time.sleep(1.0)
        untried.put("a", pod(NO_PLACE, controller="web"), True)
        assert not untried.is_foreseen
        assert untried.awaited_until_s(0.5) == 5.0, "of the other controller nothing is known"
        untried.remove("z")
        assert untried.awaited_until_s(0.5) == 0.5
        assert untried.awaited_until_s(LONG) == 5.0
        untried.put("b", pod(NO_PLACE, controller="web"), True)
        assert (untried.is_foreseen, untried.last_arrival_s) == (True, 0.0)
        untried.put("d", pod(NO_PLACE, controller="web"), True)
        assert not untried.is_foreseen, "nobody had seen it before"
        await time.sleep(5.0)
        untried.put("e", pod(controller="web"), False)
        assert untried.awaited_until_s(0.5) == 11.0, "what was said long ago says nothing"

    time.run(main())


def test_a_controller_that_still_creates_pods_is_waited_for_but_not_for_ever() -> None:
    time, lacking = clock.VirtualClock(), ["web"]
    untried = UnprocessedPods(time, lambda refused: [item for item in lacking if item in refused])

    async def main() -> None:
        untried.put("a", pod(controller="web"), False)
        await time.sleep(0.1)
        untried.put("a", pod(NO_PLACE, controller="web"), True)
        assert untried.awaited_until_s(0.5) == 2.0
        await time.sleep(0.9)
        untried.put("b", pod(controller="web"), False)
        assert untried.awaited_until_s(0.5) == 3.0
        lacking.clear()
        assert untried.awaited_until_s(0.5) == 1.5

    time.run(main())


def test_a_pod_that_nobody_tries_is_given_up() -> None:
    time = clock.VirtualClock()
    untried = UnprocessedPods(time, nobody)

    async def main() -> None:
        untried.put("a", pod(), False)
        await time.sleep(5.0)
        assert untried.awaited_until_s(LONG) == NEVER
        untried.put("b", pod(), False)
        assert untried.awaited_until_s(LONG) == 10.0

    time.run(main())
