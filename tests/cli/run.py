"""Run the command line in this process, as a shell would."""

import contextlib
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from windlass import cli

ROOT = Path(__file__).parents[2]
DATA = Path(__file__).parent / "data"
EXAMPLE = ROOT / "examples" / "cluster.yaml"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The exit code, and what was written to standard output and standard error."""

    code: int
    out: str
    err: str


def windlass(*arguments: str | Path, stdin: bytes = b"") -> Outcome:
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        _standard_input(stdin),
    ):
        try:
            cli.main([str(argument) for argument in arguments])
            code = 0
        except SystemExit as exit:
            code = exit.code if isinstance(exit.code, int) else int(exit.code is not None)
    return Outcome(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _standard_input(text: bytes) -> Iterator[None]:
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(text))
    try:
        yield
    finally:
        sys.stdin = before
