"""Memory has an end here: whoever takes more than a gibibyte over something odd is refused it, and fails."""

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOM_BYTES = 2**30
"""Addresses, of which little is ever used: the address space of a thread alone is 64 MiB."""
_ADDRESSES = Path("/proc/self/statm")
"""How many there are: Linux tells. Elsewhere nothing is judged."""
_GROWTH_KIB = 256 * 2**10
"""Resident at the peak, more than at any time before. All examples of a test together; most take a few MiB."""


@pytest.fixture(autouse=True)
def _within_bounds() -> Iterator[None]:
    if not _ADDRESSES.exists():
        yield
        return
    pages, (soft, hard) = int(_ADDRESSES.read_text().split()[0]), resource.getrlimit(resource.RLIMIT_AS)
    peak_kib = _peak_kib()
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _ROOM_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert _peak_kib() - peak_kib < _GROWTH_KIB


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
