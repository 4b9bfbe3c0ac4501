"""Flags of ProvisioningRequests, each alone: what loops do with requests with and without it."""

from dataclasses import replace

import pytest

from tests.engine.capacity_apis.provisioning_clusters import NOW_S, SERVED, make, request
from tests.engine.loop.test_single_flags import Slow
from windlass.engine import loop, time_limits
from windlass.engine.capacity_apis import provisioning_request_queue
from windlass.engine.model import plan
from windlass.engine.model.settings import Settings

PROVISIONED = provisioning_request_queue.PROVISIONED


def serve(**changes: object) -> Settings:
    return replace(SERVED, provisioning_requests=replace(SERVED.provisioning_requests, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(("instance", "served"), [("", False), ("mine", True), ("other", False)])
def test_an_instance_serves_the_requests_that_name_it(instance: str, served: bool) -> None:
    parameters = {"processorInstance": "mine"}
    world = make(request("r", parameters=parameters), settings=serve(check_capacity_processor_instance=instance))
    world.loop()
    assert (world.said("r").get(PROVISIONED, ("", ""))[0] == "True") is served


def count_in_a_batch(timer: time_limits.Timer = loop.UNTIMED, **changes: object) -> int:
    """How many of four requests that fit one loop answers."""
    settings = serve(check_capacity_batch_processing=True, **changes)
    world = make(*(request(f"r{number}") for number in range(4)), settings=settings)
    decision = loop.decide(world.observe(), world.memory, settings, NOW_S + 10.0, timer)
    return sum(
        condition.type == PROVISIONED and condition.status == "True"
        for instruction in decision.plan
        if isinstance(instruction, plan.SetConditions)
        for condition in instruction.conditions
    )


def test_a_batch_is_as_large_as_the_flag_says() -> None:
    assert count_in_a_batch() == 4
    assert count_in_a_batch(check_capacity_provisioning_request_max_batch_size=2) == 2


def test_a_batch_ends_after_the_time_of_the_flag() -> None:
    limit = "check_capacity_provisioning_request_batch_timebox_s"
    assert count_in_a_batch(Slow(), **{limit: 1.5}) < count_in_a_batch(Slow(), **{limit: 99.0}) == 4


def count_tries(count: int = 1, **changes: object) -> int:
    """How often requests that find no capacity are tried in an hour."""
    world = make(*(request(f"huge{number}", cores=99) for number in range(count)), settings=serve(**changes))
    tries = 0
    while world.now_s < NOW_S + 3600.0:
        requests = world.loop(5.0).story.requests
        tries += requests is not None and requests.picked != ""
    return tries


def test_a_request_is_tried_again_after_a_backoff_that_doubles_up_to_a_limit() -> None:
    assert count_tries(provisioning_request_initial_backoff_time_s=240.0) < count_tries()
    assert count_tries(provisioning_request_max_backoff_time_s=120.0) > count_tries()


def test_backoffs_of_so_many_requests_are_kept() -> None:
    assert count_tries(3, provisioning_request_max_backoff_cache_size=1) > count_tries(3)
