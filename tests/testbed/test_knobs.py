"""What a machine is told by annotations."""

import pytest

from testbed.infrastructure import knobs
from testbed.infrastructure.knobs import PREFIX


def test_a_machine_that_is_told_nothing_fares_well_and_at_once() -> None:
    assert knobs.read({}, {"cluster.x-k8s.io/delete-machine": "yes"}) == knobs.Knobs()


def test_every_knob_has_its_annotation() -> None:
    said = {
        PREFIX + "provision-seconds": "30",
        PREFIX + "boot-seconds": "1.5",
        PREFIX + "ready-seconds": "2",
        PREFIX + "terminate-seconds": "3",
        PREFIX + "fail": "quota exceeded",
        PREFIX + "lose": "gone",
    }
    assert knobs.read(said) == knobs.Knobs(30.0, 1.5, 2.0, 3.0, "quota exceeded", "gone")


def test_the_annotation_nearest_to_the_machine_wins() -> None:
    group, machine = {PREFIX + "boot-seconds": "60", PREFIX + "fail": "no"}, {PREFIX + "boot-seconds": "1"}
    assert knobs.read(group, machine) == knobs.Knobs(boot_s=1.0, fail="no")


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf", ""])
def test_a_time_that_is_none_makes_the_machine_fail_and_says_why(text: str) -> None:
    told = knobs.read({PREFIX + "provision-seconds": text})
    assert told.fail == f"annotation {PREFIX}provision-seconds: found {text!r}, accepted is a number of seconds"


def test_an_unknown_loss_makes_the_machine_fail_and_says_why() -> None:
    told = knobs.read({PREFIX + "lose": "keys"})
    assert told.fail == f"annotation {PREFIX}lose: found 'keys', accepted are 'gone' and 'unreachable'"
