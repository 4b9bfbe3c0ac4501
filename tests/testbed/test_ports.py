"""Ports of beds that start at the same time, in different processes: none is chosen twice, though none is bound yet."""

import subprocess
import sys
from dataclasses import astuple
from pathlib import Path

from testbed import ports

_ROOT = Path(ports.__file__).parent.parent
_OTHER = "import sys; from testbed import ports; print([ports._claim(int(port)) for port in sys.argv[1:]])"


def test_a_port_that_was_chosen_is_chosen_by_nobody_else() -> None:
    chosen, others = astuple(ports.choose()), astuple(ports.choose())
    assert len({*chosen, *others}) == len(chosen) + len(others)
    command = [sys.executable, "-c", _OTHER, *map(str, chosen)]
    ran = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == f"{[False] * len(chosen)}\n"
