"""Utilization of one node from the requests of its pods. Recorded without a GPU configuration, to six digits."""

from tests.conformance import objects
from tests.conformance.drain import seconds
from tests.conformance.outcome import Json, by_section
from windlass.engine.scale_down import utilization

DIGITS = 6


def _generated(case: Json, constants: Json) -> object:
    found = utilization.calculate(
        objects.node(case["node"]),
        [objects.pod(pod) for pod in case["pods"]],
        utilization.Options(case["skip_daemonset"], case["skip_mirror"]),
        None,
        seconds(case["now"]),
    )
    if isinstance(found, utilization.Unknown):
        return str(found)
    return {
        "cpu": round(found.cpu, DIGITS),
        "memory": round(found.memory, DIGITS),
        "resource": found.resource,
        "utilization": round(found.utilization, DIGITS),
    }


run = by_section({"generated": _generated})
