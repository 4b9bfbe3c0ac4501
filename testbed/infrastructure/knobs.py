"""What a machine can be told, by annotations on its MachineDeployment or MachinePool, its Machine, or its FakeMachine.

    fake.infrastructure/provision-seconds: "30"   the cloud takes so long to give an instance (no providerID until then)
    fake.infrastructure/boot-seconds: "60"        the instance takes so long to register its Node
    fake.infrastructure/ready-seconds: "10"       the Node takes so long to become Ready
    fake.infrastructure/terminate-seconds: "20"   the cloud takes so long to take the instance back
    fake.infrastructure/fail: quota exceeded      while it is there no instance is given, and this is why
    fake.infrastructure/lose: gone                the instance is lost for good, and its Node deleted, as clouds do
    fake.infrastructure/lose: unreachable         nobody hears of the Node until the annotation is taken away

The nearest to the machine wins. Times count from the moment a machine entered the stage, whenever they are set.
"""

from collections.abc import Mapping
from dataclasses import dataclass

PREFIX = "fake.infrastructure/"
GONE = "gone"
UNREACHABLE = "unreachable"
_LOSSES = ("", GONE, UNREACHABLE)


@dataclass(frozen=True, slots=True)
class Knobs:
    """How a machine fares. By default: well, and at once."""

    provision_s: float = 0.0
    boot_s: float = 0.0
    ready_s: float = 0.0
    terminate_s: float = 0.0
    fail: str = ""
    lose: str = ""


def read(*annotations: Mapping[str, str]) -> Knobs:
    """The knobs of a machine, from the annotations of its group, Machine and FakeMachine, in this order.

    A value that cannot be understood makes the machine fail, and is named in the reason.
    """
    said = {name: value for given in annotations for name, value in given.items() if name.startswith(PREFIX)}
    try:
        return Knobs(
            provision_s=_seconds(said, "provision-seconds"),
            boot_s=_seconds(said, "boot-seconds"),
            ready_s=_seconds(said, "ready-seconds"),
            terminate_s=_seconds(said, "terminate-seconds"),
            fail=said.get(PREFIX + "fail", ""),
            lose=_loss(said),
        )
    except ValueError as error:
        return Knobs(fail=str(error))


def _seconds(said: Mapping[str, str], name: str) -> float:
    text = said.get(PREFIX + name, "0")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds < float("inf"):
        raise ValueError(f"annotation {PREFIX}{name}: found {text!r}, accepted is a number of seconds")
    return seconds


def _loss(said: Mapping[str, str]) -> str:
    loss = said.get(PREFIX + "lose", "")
    if loss not in _LOSSES:
        raise ValueError(f"annotation {PREFIX}lose: found {loss!r}, accepted are {GONE!r} and {UNREACHABLE!r}")
    return loss
