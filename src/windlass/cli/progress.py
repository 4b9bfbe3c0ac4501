"""Progress: a bar on a terminal, a line now and then elsewhere. It says how far the story is and how fast it goes."""

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from windlass.cli import style

if TYPE_CHECKING:
    from windlass.simulator.simulation import Simulation

_EVERY_S = 0.1
"""Between two looks of the bar."""
_TENTH = 0.1
_WIDTH = 28
_HOUR_S, _DAY_S = 3600, 86400


class Progress:
    """Follows one run."""

    def __init__(self, stream: TextIO, title: str, lasts_s: float) -> None:
        self._stream, self._title, self._lasts_s = stream, title, lasts_s
        self._is_bar = stream.isatty()
        self._style = style.of_stream(stream)
        self._began_s = self._told_s = time.monotonic()
        self._told_share = 0.0
        self._now_s = 0.0

    def join(self, simulation: "Simulation") -> None:
        pulse = simulation.world.pulse
        pulse.after_each_step(lambda: self.tell(pulse.now_s()))

    def tell(self, now_s: float) -> None:
        """The story has come so far."""
        self._now_s = now_s
        real_s, share = time.monotonic(), min(now_s / self._lasts_s, 1.0)
        if self._is_bar and real_s - self._told_s >= _EVERY_S:
            self._told_s = real_s
            self._stream.write(f"\r{self._bar(share)}\033[K")
            self._stream.flush()
        elif not self._is_bar and share - self._told_share >= _TENTH:
            self._told_share = share
            print(f"{self._title}: {share:4.0%}  {self._facts()}", file=self._stream, flush=True)

    def end(self) -> None:
        """The last word: how long it took."""
        if self._is_bar:
            self._stream.write("\r\033[K")
        took_s = max(time.monotonic() - self._began_s, 1e-9)
        played = _spell(self._now_s)
        print(f"{self._title}: {played} in {took_s:.1f} s, {self._now_s / took_s:,.0f}× real time", file=self._stream)

    def _bar(self, share: float) -> str:
        done = round(share * _WIDTH)
        return f"{self._title} {self._style.good('━' * done)}{self._style.faint('━' * (_WIDTH - done))} {self._facts()}"

    def _facts(self) -> str:
        speed = self._now_s / max(time.monotonic() - self._began_s, 1e-9)
        return f"{_spell(self._now_s)} of {_spell(self._lasts_s)}, {speed:,.0f}×"


@contextlib.contextmanager
def of_stream(stream: TextIO, title: str, lasts_s: float) -> Iterator[Progress]:
    """For the time of one run."""
    made = Progress(stream, title, lasts_s)
    yield made
    made.end()


def _spell(seconds: float) -> str:
    days, rest = divmod(round(seconds), _DAY_S)
    clock = f"{rest // _HOUR_S:02d}:{rest % _HOUR_S // 60:02d}"
    return f"{days}d {clock}" if days else f"{clock} h"
