"""Terminal output: checked standard output, colours, and progress bars.

Standard output is flushed at the end of every command. If it cannot be written to, the process ends with a one-line
error and an exit code; the file records the error, so that it is not confused with an error of another file. Colours
and redrawn bars (`rich.progress`) appear on a terminal only; pipes get plain, stable lines.
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
    from rich.progress import Progress

    from windlass.simulator.simulation import Simulation

WRITE_FAILED = 2


class _CheckedFile(io.FileIO):
    """A file that records its last write error."""

    error: OSError | None = None

    def write(self, data: object) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            self.error = error
            raise


class _ClosedOutput(io.RawIOBase):
    """Standard output that was closed before the process started."""

    error: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.error = OSError(errno.EBADF, os.strerror(errno.EBADF))
        raise self.error


@contextlib.contextmanager
def checked_stdout() -> Iterator[None]:
    """End the process with a one-line error if standard output cannot be written to."""
    checked = _replace_stdout()
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BaseException:
        if checked is not None and checked.error is not None:
            _exit_with_error(checked.error)
        raise


def _replace_stdout() -> _CheckedFile | _ClosedOutput | None:
    """Put a checked file in place of standard output; None if an embedding program has replaced it already."""
    plain = sys.stdout
    if plain is None:
        closed = _ClosedOutput()
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(closed), encoding="utf-8")
        return closed
    if plain is not sys.__stdout__ or not isinstance(plain, io.TextIOWrapper):
        return None
    plain.flush()
    checked = _CheckedFile(plain.fileno(), "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(checked),
        encoding=plain.encoding,
        errors=plain.errors,
        line_buffering=plain.line_buffering,
        write_through=plain.write_through,
    )
    return checked


def _exit_with_error(error: OSError) -> None:
    sys.stdout = None  # otherwise Python reports the error again when it flushes at exit
    if isinstance(error, BrokenPipeError):
        sys.exit(0)  # the reader has closed the pipe, as `head` does
    print(f"windlass: cannot write to standard output: {error.strerror or error}", file=sys.stderr)
    sys.exit(WRITE_FAILED)


@dataclass(frozen=True, slots=True)
class TextStyle:
    """ANSI colours, or none. They add no width: pad first, then colour."""

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
    """Colours on a terminal, unless NO_COLOR is set (https://no-color.org) or TERM is dumb."""
    return TextStyle(stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")


_REDRAW_S = 0.1
"""Least time between two redraws of a bar."""

_PLAIN_STEP = 0.1
"""Share of the work between two lines where the stream is no terminal."""

_BAR_WIDTH = 28


class _ProgressBar:
    """Progress of one task: a bar on a terminal, elsewhere one line at every tenth of the work."""

    def __init__(self, stream: TextIO, title: str) -> None:
        self._stream, self._title = stream, title
        self._began_s = self._shown_s = time.monotonic()
        self._shown_share = 0.0
        self._bar = _make_bar(stream, title) if stream.isatty() else None

    def _show(self, share: float) -> None:
        real_s = time.monotonic()
        if self._bar is None:
            if share - self._shown_share >= _PLAIN_STEP:
                self._shown_share = share
                print(f"{self._title}: {share:4.0%}  {self._facts()}", file=self._stream, flush=True)
        elif real_s - self._shown_s >= _REDRAW_S:
            self._shown_s = real_s
            self._bar.update(self._bar.task_ids[0], completed=share, facts=self._facts(), refresh=True)

    def _begin(self, text: str) -> None:
        if self._bar is None:
            print(f"{self._title}: {text}", file=self._stream, flush=True)
        else:
            self._bar.update(self._bar.task_ids[0], facts=text, refresh=True)

    def close(self) -> None:
        """Remove the bar and show the cursor again."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _conclude(self, text: str) -> None:
        self.close()
        print(f"{self._title}: {text}", file=self._stream)

    @property
    def _took_s(self) -> float:
        return max(time.monotonic() - self._began_s, 1e-9)

    def _facts(self) -> str:
        raise NotImplementedError


def _make_bar(stream: TextIO, title: str) -> "Progress":
    from rich import console, progress  # 0.1 s: only where a bar is drawn

    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(_BAR_WIDTH, complete_style="bold green", finished_style="bold green"),
        progress.TextColumn("{task.fields[facts]}", markup=False),
    )
    # Without auto_refresh there is no thread: the bar is drawn between two steps of the work.
    bar = progress.Progress(
        *columns,
        console=console.Console(file=stream),
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    bar.add_task(title, total=1.0, facts="")
    bar.start()
    return bar


class SimulationProgress(_ProgressBar):
    """Progress of one simulation run, in scenario time."""

    def __init__(self, stream: TextIO, title: str, lasts_s: float) -> None:
        super().__init__(stream, title)
        self._lasts_s = lasts_s
        self._now_s = 0.0

    def attach(self, simulation: "Simulation") -> None:
        pulse = simulation.cluster.event_loop
        pulse.after_each_step(lambda: self.update(pulse.now_s()))

    def update(self, now_s: float) -> None:
        """Show the scenario time that has been reached."""
        self._now_s = now_s
        self._show(min(now_s / self._lasts_s, 1.0))

    def finish(self) -> None:
        """Print how long the run took."""
        speed = self._now_s / self._took_s
        self._conclude(f"{_format_hours(self._now_s)} in {self._took_s:.1f} s, {speed:,.0f}× real time")

    def _facts(self) -> str:
        return f"{_format_hours(self._now_s)} of {_format_hours(self._lasts_s)}, {self._now_s / self._took_s:,.0f}×"


class CountProgress(_ProgressBar):
    """Progress of a sweep: completed runs, and an estimate of the time left."""

    def __init__(self, stream: TextIO, title: str, total: int) -> None:
        super().__init__(stream, title)
        self._total, self._done = total, 0
        self._begin(f"{total} runs to play")  # the first may take minutes

    def add(self) -> None:
        """Count one completed run."""
        self._done += 1
        self._show(self._done / self._total)

    def finish(self) -> None:
        self._conclude(f"{self._done} of {self._total} runs in {self._took_s:.1f} s{self._rate}")

    @property
    def _rate(self) -> str:
        if not self._done:
            return ""
        each_s = self._took_s / self._done
        return f", {1 / each_s:.1f} a second" if each_s < 1 else f", one every {each_s:.1f} s"

    def _facts(self) -> str:
        left_s = self._took_s / self._done * (self._total - self._done)
        return f"{self._done} of {self._total} runs, {left_s:,.0f} s left"


@contextlib.contextmanager
def simulation_progress(stream: TextIO, title: str, lasts_s: float) -> Iterator[SimulationProgress]:
    """Progress for the time of one run."""
    progress = SimulationProgress(stream, title, lasts_s)
    try:
        yield progress
        progress.finish()
    finally:
        progress.close()


def _format_hours(seconds: float) -> str:
    from windlass import formatting  # it imports the engine, which `windlass --help` does without

    return formatting.format_hours(seconds)
