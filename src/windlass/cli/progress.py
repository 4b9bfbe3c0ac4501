"""Progress: a bar on a terminal, a line now and then elsewhere. It says how far it is and how fast it goes."""

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


class _Bar:
    """Shows a share and the facts beside it: on a terminal ten times a second, elsewhere at every tenth."""

    def __init__(self, stream: TextIO, title: str) -> None:
        self._stream, self._title = stream, title
        self._is_bar = stream.isatty()
        self._style = style.of_stream(stream)
        self._began_s = self._told_s = time.monotonic()
        self._told_share = 0.0

    def _show(self, share: float) -> None:
        real_s = time.monotonic()
        if self._is_bar and real_s - self._told_s >= _EVERY_S:
            self._told_s = real_s
            self._stream.write(f"\r{self._draw(share)}\033[K")
            self._stream.flush()
        elif not self._is_bar and share - self._told_share >= _TENTH:
            self._told_share = share
            print(f"{self._title}: {share:4.0%}  {self._facts()}", file=self._stream, flush=True)

    def _begin(self, said: str) -> None:
        """The first word."""
        if self._is_bar:
            self._stream.write(f"\r{self._title} {self._style.faint('━' * _WIDTH)} {said}\033[K")
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
        done = round(share * _WIDTH)
        return f"{self._title} {self._style.good('━' * done)}{self._style.faint('━' * (_WIDTH - done))} {self._facts()}"

    def _facts(self) -> str:
        raise NotImplementedError


class Progress(_Bar):
    """Follows one run."""

    def __init__(self, stream: TextIO, title: str, lasts_s: float) -> None:
        super().__init__(stream, title)
        self._lasts_s = lasts_s
        self._now_s = 0.0

    def join(self, simulation: "Simulation") -> None:
        pulse = simulation.world.pulse
        pulse.after_each_step(lambda: self.tell(pulse.now_s()))

    def tell(self, now_s: float) -> None:
        """The story has come so far."""
        self._now_s = now_s
        self._show(min(now_s / self._lasts_s, 1.0))

    def end(self) -> None:
        """How long it took."""
        speed = self._now_s / self._took_s
        self._conclude(f"{_spell(self._now_s)} in {self._took_s:.1f} s, {speed:,.0f}× real time")

    def _facts(self) -> str:
        return f"{_spell(self._now_s)} of {_spell(self._lasts_s)}, {self._now_s / self._took_s:,.0f}×"


class Count(_Bar):
    """Follows many runs: how many are over, and how long the others will take."""

    def __init__(self, stream: TextIO, title: str, wanted: int) -> None:
        super().__init__(stream, title)
        self._wanted, self._done = wanted, 0
        self._begin(f"{wanted} runs to play")  # the first may take minutes

    def add(self) -> None:
        """One more is over."""
        self._done += 1
        self._show(self._done / self._wanted)

    def end(self) -> None:
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
def of_stream(stream: TextIO, title: str, lasts_s: float) -> Iterator[Progress]:
    """For the time of one run."""
    made = Progress(stream, title, lasts_s)
    yield made
    made.end()


def _spell(seconds: float) -> str:
    days, rest = divmod(round(seconds), _DAY_S)
    clock = f"{rest // _HOUR_S:02d}:{rest % _HOUR_S // 60:02d}"
    return f"{days}d {clock}" if days else f"{clock} h"
