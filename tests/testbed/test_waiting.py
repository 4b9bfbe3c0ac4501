"""`wait_for`: what is not there yet is waited for, what will never be seen is reported with the server's words."""

from collections.abc import Iterator

import pytest

from testbed.api import Refused, wait_for


def refused(code: int) -> Refused:
    return Refused("GET /apis/example.com/v1/things/one", code, "things one not found")


def test_an_object_that_is_not_there_yet_is_waited_for() -> None:
    answers: Iterator[Refused | int] = iter([refused(404), refused(503), 1, 2])

    def probe() -> int:
        answer = next(answers)
        if isinstance(answer, Refused):
            raise answer
        return answer

    assert wait_for("it has 2", probe, lambda seen: seen == 2, poll_s=0.0) == 2


def test_an_object_that_never_comes_is_named_in_the_servers_words() -> None:
    def probe() -> int:
        raise refused(404)

    with pytest.raises(TimeoutError, match=r"one is there; last seen: GET .*: 404: things one not found"):
        wait_for("one is there", probe, within_s=0.0, poll_s=0.0)


def test_a_right_that_is_missing_is_not_waited_for() -> None:
    def probe() -> int:
        raise refused(403)

    with pytest.raises(Refused, match="403"):
        wait_for("one is there", probe)
