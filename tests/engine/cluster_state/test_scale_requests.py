from hypothesis import given
from hypothesis import strategies as st

from windlass.engine.cluster_state import scale_requests
from windlass.engine.model.cluster_health import RequestOutcome, ScaleRequests, ScaleUpRequest

PROVISION_S = 900.0
counts = st.integers(1, 20)


def asked(increase: int = 3, at_s: float = 0.0) -> ScaleUpRequest:
    return scale_requests.extend_scale_up(None, increase, at_s, PROVISION_S)


def test_a_request_is_expected_within_the_time_a_node_may_take() -> None:
    assert asked(3, 100.0) == ScaleUpRequest(increase=3, began_s=100.0, requested_s=100.0, expected_by_s=1000.0)


def test_asking_for_more_starts_the_time_anew_for_all() -> None:
    more = scale_requests.extend_scale_up(asked(3, 100.0), 2, 400.0, PROVISION_S)
    assert more == ScaleUpRequest(increase=5, began_s=100.0, requested_s=400.0, expected_by_s=1300.0)


def test_what_does_not_come_shortens_the_request_and_leaves_its_time() -> None:
    assert scale_requests.shorten_scale_up(asked(3), 2) == ScaleUpRequest(1, 0.0, 0.0, PROVISION_S)
    assert scale_requests.shorten_scale_up(asked(3), 3) is None
    assert scale_requests.shorten_scale_up(asked(3), 4) is None


def test_nodes_asked_for_here_are_given_up_before_those_of_others() -> None:
    request = scale_requests.extend_scale_up(
        scale_requests.make_external_request(2, 0.0, PROVISION_S), 1, 0.0, PROVISION_S
    )
    assert (request.increase, request.external) == (1, 2)
    left = scale_requests.shorten_scale_up(request, 2)
    assert left is not None
    assert (left.increase, left.external) == (0, 1)
    assert scale_requests.shorten_scale_up(request, 3) is None


def test_a_request_ends_when_nothing_is_missing_even_if_late() -> None:
    assert scale_requests.find_outcome(asked(), 0, 0.0) is RequestOutcome.FULFILLED
    assert scale_requests.find_outcome(asked(), -1, 5000.0) is RequestOutcome.FULFILLED


def test_a_request_times_out_after_the_moment_it_is_expected_by() -> None:
    assert scale_requests.find_outcome(asked(), 1, PROVISION_S) is None
    assert scale_requests.find_outcome(asked(), 1, PROVISION_S + 0.001) is RequestOutcome.TIMED_OUT


def test_growing_one_group_leaves_other_requests_alone() -> None:
    one = scale_requests.register_scale_up(ScaleRequests(), "a", 2, 0.0, PROVISION_S)
    both = scale_requests.register_scale_up(
        scale_requests.register_scale_down(one, "a", "n", 0.0), "b", 1, 5.0, PROVISION_S
    )
    assert both.scale_ups["a"] == one.scale_ups["a"]
    assert [deletion.node for deletion in both.scale_downs] == ["n"]


def test_a_deletion_is_awaited_for_less_than_five_minutes() -> None:
    (deletion,) = scale_requests.register_scale_down(ScaleRequests(), "a", "n", 100.0).scale_downs
    assert scale_requests.drop_expired_scale_downs((deletion,), 399.999) == (deletion,)
    assert scale_requests.drop_expired_scale_downs((deletion,), 400.0) == ()


@given(counts, counts, counts)
def test_shortening_step_by_step_is_shortening_at_once(own: int, others: int, by: int) -> None:
    request: ScaleUpRequest | None = ScaleUpRequest(own, 0.0, 0.0, PROVISION_S, external=others)
    at_once = scale_requests.shorten_scale_up(ScaleUpRequest(own, 0.0, 0.0, PROVISION_S, external=others), by)
    for _ in range(by):
        request = scale_requests.shorten_scale_up(request, 1) if request is not None else None
    assert request == at_once
    assert (own + others - by > 0) == (at_once is not None)
