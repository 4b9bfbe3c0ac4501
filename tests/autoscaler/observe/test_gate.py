"""The gate: what changes the snapshot waits for the decision, and then comes in order, each change for itself."""

import asyncio

import pytest

from windlass.autoscaler.observe.gate import Gate


def test_an_open_gate_lets_a_change_through_at_once_and_raises_what_it_raises() -> None:
    gate, seen = Gate(), list[int]()
    gate.do(seen.append, 1)
    assert seen == [1]
    with pytest.raises(ZeroDivisionError):
        gate.do(lambda: 1 // 0)


def test_changes_wait_while_it_is_closed_and_come_in_order() -> None:
    gate, seen = Gate(), list[int]()
    with gate.closed():
        with gate.closed():
            gate.do(seen.append, 1)
        gate.do(seen.append, 2)
        assert seen == []
    assert seen == [1, 2]


def test_a_change_that_fails_costs_no_other_change(caplog: pytest.LogCaptureFixture) -> None:
    gate, seen = Gate(), list[int]()
    with gate.closed():
        gate.do(seen.append, 1)
        gate.do(lambda: 1 // 0)
        gate.do(seen.append, 2)
    gate.do(seen.append, 3)
    assert seen == [1, 2, 3]
    assert gate.failed == 1
    assert "ZeroDivisionError" in caplog.text


def test_what_ended_the_decision_is_raised_and_not_what_a_change_raised() -> None:
    gate, seen = Gate(), list[int]()

    def turn() -> None:
        with gate.closed():
            gate.do(lambda: 1 // 0)
            gate.do(seen.append, 1)
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        turn()
    assert seen == [1]


def test_a_change_that_comes_while_others_are_let_through_does_not_overtake_them() -> None:
    gate, seen = Gate(), list[int]()

    def change() -> None:
        gate.do(seen.append, 3)
        seen.append(1)

    with gate.closed():
        gate.do(change)
        gate.do(seen.append, 2)
    assert seen == [1, 2, 3]
