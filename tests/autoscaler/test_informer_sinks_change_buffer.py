"""The gate: what changes the snapshot waits for the decision, and then comes in order, each change for itself."""

import asyncio

import pytest

from windlass.autoscaler.informer_sinks import ChangeBuffer


def test_an_open_gate_lets_a_change_through_at_once_and_raises_what_it_raises() -> None:
    gate, seen = ChangeBuffer(), list[int]()
    gate.apply(seen.append, 1)
    assert seen == [1]
    with pytest.raises(ZeroDivisionError):
        gate.apply(lambda: 1 // 0)


def test_changes_wait_while_it_is_closed_and_come_in_order() -> None:
    gate, seen = ChangeBuffer(), list[int]()
    with gate.frozen():
        with gate.frozen():
            gate.apply(seen.append, 1)
        gate.apply(seen.append, 2)
        assert seen == []
    assert seen == [1, 2]


def test_a_change_that_fails_costs_no_other_change(caplog: pytest.LogCaptureFixture) -> None:
    gate, seen = ChangeBuffer(), list[int]()
    with gate.frozen():
        gate.apply(seen.append, 1)
        gate.apply(lambda: 1 // 0)
        gate.apply(seen.append, 2)
    gate.apply(seen.append, 3)
    assert seen == [1, 2, 3]
    assert gate.failed == 1
    assert "ZeroDivisionError" in caplog.text


def test_what_ended_the_decision_is_raised_and_not_what_a_change_raised() -> None:
    gate, seen = ChangeBuffer(), list[int]()

    def turn() -> None:
        with gate.frozen():
            gate.apply(lambda: 1 // 0)
            gate.apply(seen.append, 1)
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        turn()
    assert seen == [1]


def test_a_change_that_comes_while_others_are_let_through_does_not_overtake_them() -> None:
    gate, seen = ChangeBuffer(), list[int]()

    def change() -> None:
        gate.apply(seen.append, 3)
        seen.append(1)

    with gate.frozen():
        gate.apply(change)
        gate.apply(seen.append, 2)
    assert seen == [1, 2, 3]
