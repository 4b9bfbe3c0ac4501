"""Standard output that cannot be written to: one sentence and an exit code, for every command.

A command prints wherever it likes, at the end of which its output is flushed here. What failed on the way is noted by
the file itself, so that it is not mistaken for an error of another file.
"""

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator

FAILED = 2


class _Watched(io.FileIO):
    """A file that remembers why it could not be written to."""

    error: OSError | None = None

    def write(self, data: object) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            self.error = error
            raise


class _Closed(io.RawIOBase):
    """An output that was closed by whoever started the process."""

    error: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.error = OSError(errno.EBADF, os.strerror(errno.EBADF))
        raise self.error


@contextlib.contextmanager
def checked() -> Iterator[None]:
    """End the process with a sentence if something was printed that could not be written."""
    watched = _watch()
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BaseException:
        if watched is not None and watched.error is not None:
            _end(watched.error)
        raise


def _watch() -> _Watched | _Closed | None:
    """Put a watched file in place of standard output; None if a program that we are part of has its own."""
    plain = sys.stdout
    if plain is None:
        closed = _Closed()
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(closed), encoding="utf-8")
        return closed
    if plain is not sys.__stdout__ or not isinstance(plain, io.TextIOWrapper):
        return None
    plain.flush()
    watched = _Watched(plain.fileno(), "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(watched),
        encoding=plain.encoding,
        errors=plain.errors,
        line_buffering=plain.line_buffering,
        write_through=plain.write_through,
    )
    return watched


def _end(error: OSError) -> None:
    sys.stdout = None  # Python would complain once more when it flushes at exit
    if isinstance(error, BrokenPipeError):
        sys.exit(0)  # whoever read the output has seen enough
    print(f"windlass: cannot write to standard output: {error.strerror or error}", file=sys.stderr)
    sys.exit(FAILED)
