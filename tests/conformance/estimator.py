"""The estimator: how many nodes pods need, in which order they are packed and where packing stops."""

from collections.abc import Callable

from tests.conformance import estimator_limits, estimator_packing
from tests.conformance.outcome import Json, by_section

SECTIONS: dict[str, Callable[[Json, Json], object]] = {
    **estimator_limits.SECTIONS,
    **estimator_packing.SECTIONS,
}

run = by_section(SECTIONS)
