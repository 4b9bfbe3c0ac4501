from tests import again


def test_a_few_on_the_real_control_plane_are_tried_again_by_their_own_names() -> None:
    failed = ["tests/e2e/test_a.py::test_x[1]@live autoscaler", "tests/testbed/test_b.py::test_y"]
    assert again.choose(failed) == ["tests/e2e/test_a.py::test_x[1]", "tests/testbed/test_b.py::test_y"]


def test_nothing_is_tried_again_if_anything_else_failed() -> None:
    assert again.choose(["tests/e2e/test_a.py::test_x", "tests/engine/test_b.py::test_y"]) == []


def test_many_failures_are_no_accident() -> None:
    assert again.choose([f"tests/e2e/test_a.py::test_{number}" for number in range(again.MOST + 1)]) == []
