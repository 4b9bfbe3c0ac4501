"""Terminal output: checked standard output, colours, and progress bars.

Every command prints freely; its output is flushed here at the end. A standard output that cannot be written to gives
one sentence and an exit code. The file itself records the error, so that it is not mistaken for one of another file.
Colours and redrawn bars appear on a terminal only.
"""

import contextlib
import errno
import io
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from windlass.simulator.simulation import Simulation

WRITE_FAILED = 2


class _CheckedFile(io.FileIO):
    """A file that remembers why it could not be written to."""

    error: OSError | None = None

    def write(self, data: object) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            self.error = error
            raise


class _ClosedOutput(io.RawIOBase):
    """An output that was closed by whoever started the process."""

    error: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.error = OSError(errno.EBADF, os.strerror(errno.EBADF))
        raise self.error


@contextlib.contextmanager
def checked_stdout() -> Iterator[None]:
    """End the process with a sentence if something was printed that could not be written."""
    watched = _replace_stdout()
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BaseException:
        if watched is not None and watched.error is not None:
            _exit_with_error(watched.error)
        raise


def _replace_stdout() -> _CheckedFile | _ClosedOutput | None:
    """Put a watched file in place of standard output; None if a program that we are part of has its own."""
    plain = sys.stdout
    if plain is None:
        closed = _ClosedOutput()
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(closed), encoding="utf-8")
        return closed
    if plain is not sys.__stdout__ or not isinstance(plain, io.TextIOWrapper):
        return None
    plain.flush()
    watched = _CheckedFile(plain.fileno(), "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(watched),
        encoding=plain.encoding,
        errors=plain.errors,
        line_buffering=plain.line_buffering,
        write_through=plain.write_through,
    )
    return watched


def _exit_with_error(error: OSError) -> None:
    sys.stdout = None  # Python would complain once more when it flushes at exit
    if isinstance(error, BrokenPipeError):
        sys.exit(0)  # whoever read the output has seen enough
    print(f"windlass: cannot write to standard output: {error.strerror or error}", file=sys.stderr)
    sys.exit(WRITE_FAILED)


@dataclass(frozen=True, slots=True)
class TextStyle:
    """Colours a text, or leaves it as it is. Colour has no width: pad first, then colour."""

    colour: bool = False

    def good(self, text: str) -> str:
        return self._wrap(text, "32;1")

    def bad(self, text: str) -> str:
        return self._wrap(text, "31;1")

    def note(self, text: str) -> str:
        return self._wrap(text, "33")

    def strong(self, text: str) -> str:
        return self._wrap(text, "1")

    def faint(self, text: str) -> str:
        return self._wrap(text, "2")

    def _wrap(self, text: str, code: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self.colour and text else text


def style_for(stream: TextIO) -> TextStyle:
    """Colour on a terminal, unless NO_COLOR is set (https://no-color.org) or the terminal is a dumb one."""
    return TextStyle(stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")


_REDRAW_S = 0.1
"""Between two looks of the bar."""

_PLAIN_STEP = 0.1

_BAR_WIDTH = 28

_HOUR_S, _DAY_S = 3600, 86400


class _ProgressBar:
    """Shows a share and the facts beside it: on a terminal ten times a second, elsewhere at every tenth."""

    def __init__(self, stream: TextIO, title: str) -> None:
        self._stream, self._title = stream, title
        self._is_bar = stream.isatty()
        self._style = style_for(stream)
        self._began_s = self._told_s = time.monotonic()
        self._told_share = 0.0

    def _show(self, share: float) -> None:
        real_s = time.monotonic()
        if self._is_bar and real_s - self._told_s >= _REDRAW_S:
            self._told_s = real_s
            self._stream.write(f"\r{self._draw(share)}\033[K")
            self._stream.flush()
        elif not self._is_bar and share - self._told_share >= _PLAIN_STEP:
            self._told_share = share
            print(f"{self._title}: {share:4.0%}  {self._facts()}", file=self._stream, flush=True)

    def _begin(self, said: str) -> None:
        """The first word."""
        if self._is_bar:
            self._stream.write(f"\r{self._title} {self._style.faint('━' * _BAR_WIDTH)} {said}\033[K")
            self._stream.flush()
        else:
            print(f"{self._title}: {said}", file=self._stream, flush=True)

    def _conclude(self, said: str) -> None:
        """The last word."""
        if self._is_bar:
            self._stream.write("\r\033[K")
        print(f"{self._title}: {said}", file=self._stream)

    @property
    def _took_s(self) -> float:
        return max(time.monotonic() - self._began_s, 1e-9)

    def _draw(self, share: float) -> str:
        done = round(share * _BAR_WIDTH)
        return f"{self._title} {self._style.good('━' * done)}{self._style.faint('━' * (_BAR_WIDTH - done))} {self._facts()}"

    def _facts(self) -> str:
        raise NotImplementedError


class SimulationProgress(_ProgressBar):
    """Follows one run."""

    def __init__(self, stream: TextIO, title: str, lasts_s: float) -> None:
        super().__init__(stream, title)
        self._lasts_s = lasts_s
        self._now_s = 0.0

    def attach(self, simulation: "Simulation") -> None:
        pulse = simulation.cluster.event_loop
        pulse.after_each_step(lambda: self.update(pulse.now_s()))

    def update(self, now_s: float) -> None:
        """The story has come so far."""
        self._now_s = now_s
        self._show(min(now_s / self._lasts_s, 1.0))

    def finish(self) -> None:
        """How long it took."""
        speed = self._now_s / self._took_s
        self._conclude(f"{_format_duration(self._now_s)} in {self._took_s:.1f} s, {speed:,.0f}× real time")

    def _facts(self) -> str:
        return (
            f"{_format_duration(self._now_s)} of {_format_duration(self._lasts_s)}, {self._now_s / self._took_s:,.0f}×"
        )


class CountProgress(_ProgressBar):
    """Follows many runs: how many are over, and how long the others will take."""

    def __init__(self, stream: TextIO, title: str, wanted: int) -> None:
        super().__init__(stream, title)
        self._wanted, self._done = wanted, 0
        self._begin(f"{wanted} runs to play")  # the first may take minutes

    def add(self) -> None:
        """One more is over."""
        self._done += 1
        self._show(self._done / self._wanted)

    def finish(self) -> None:
        self._conclude(f"{self._done} of {self._wanted} runs in {self._took_s:.1f} s{self._rate}")

    @property
    def _rate(self) -> str:
        if not self._done:
            return ""
        each_s = self._took_s / self._done
        return f", {1 / each_s:.1f} a second" if each_s < 1 else f", one every {each_s:.1f} s"

    def _facts(self) -> str:
        left_s = self._took_s / self._done * (self._wanted - self._done)
        return f"{self._done} of {self._wanted} runs, {left_s:,.0f} s left"


@contextlib.contextmanager
def simulation_progress(stream: TextIO, title: str, lasts_s: float) -> Iterator[SimulationProgress]:
    """For the time of one run."""
    made = SimulationProgress(stream, title, lasts_s)
    yield made
    made.finish()


def _format_duration(seconds: float) -> str:
    days, rest = divmod(round(seconds), _DAY_S)
    clock = f"{rest // _HOUR_S:02d}:{rest % _HOUR_S // 60:02d}"
    return f"{days}d {clock}" if days else f"{clock} h"
