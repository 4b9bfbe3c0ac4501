"""Waits: how long people waited for the page to show what they did, and what the machine did meanwhile.

An interaction is what the browser takes for one (a key until it is released, a press with its click). It lasts from the
input to the next picture, which is what Interaction to Next Paint counts: the longest of its events, as Event Timing
tells them. The browser tells of none below 16 ms, and in steps of 8. An answer lasts from the question in the panel,
which is in that next picture, to the text of the autoscaler, where it came before the panel was closed again.
"""

import os
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.web import chromium

LONG_MS = 100.0
STOLEN = 0.1
"""Of the machine's cores, from which on a wait is told as one while the host had given them to others."""
_EVERY_S = 0.05
_PROC = Path("/proc")
_IDLE, _STEAL, _TICKS = 3, 7, 8
"""Places in the first line of /proc/stat, and how many there are without guests, who are counted as users."""

_RECORD = """(() => {
  const seen = window.seen = { events: [], tasks: [], asked: 0, answers: [], before: performance.interactionCount };
  const watch = (type, hear, more) =>
    new PerformanceObserver((list) => list.getEntries().forEach(hear)).observe({ type, ...more });
  watch("event", ({ interactionId, name, startTime, processingStart, processingEnd, duration }) => {
    if (interactionId) seen.events.push([interactionId, name, startTime, processingStart, processingEnd, duration]);
  }, { durationThreshold: 16 });
  watch("longtask", ({ startTime, duration }) => seen.tasks.push([startTime, duration]));
  const answer = document.getElementById("panel-answer");
  let asked = null;
  new MutationObserver(() => {
    if (answer.getAttribute("aria-busy") === "true") { seen.asked++; asked = performance.now(); }
    else if (asked !== null) { seen.answers.push(performance.now() - asked); asked = null; }
  }).observe(answer, { attributes: true, attributeFilter: ["aria-busy"] });
})()"""
_TELL = "({ ...window.seen, count: performance.interactionCount - window.seen.before, origin: performance.timeOrigin })"


@dataclass(frozen=True, slots=True)
class Wait:
    """One interaction: its longest event, and what of it went where."""

    what: str
    began_ms: float
    lasts_ms: float
    delay_ms: float
    """Before the page was called."""
    handling_ms: float
    """In the page's own code."""

    @property
    def ends_ms(self) -> float:
        return self.began_ms + self.lasts_ms

    @property
    def painting_ms(self) -> float:
        """From then on to the picture."""
        return self.lasts_ms - self.delay_ms - self.handling_ms


@dataclass(frozen=True, slots=True)
class Look:
    """The machine at one moment."""

    at_s: float
    ticks: tuple[int, ...]
    ran_ns: int
    queued_ns: int
    """How long the pages' main threads had a core, and how long they could have run and had none."""


class Machine(threading.Thread):
    """Looks at the machine again and again."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.looks: list[Look] = []
        self._is_over = threading.Event()

    def run(self) -> None:
        pages = [pid for pid in _descendants(os.getpid()) if b"--type=renderer" in _read(_PROC / f"{pid}/cmdline")]
        while not self._is_over.wait(_EVERY_S):
            self.looks.append(_probe(pages))

    def end(self) -> None:
        self._is_over.set()
        self.join()

    def between(self, from_s: float, to_s: float) -> dict[str, float]:
        """Shares of all cores, and what the pages' main threads got, from the last look before to the first after."""
        before = [look for look in self.looks if look.at_s <= from_s][-1:] or self.looks[:1]
        after = [one for one in self.looks if one.at_s >= to_s][:1] or self.looks[-1:]
        (first,), (last,) = before, after
        ticks = [now - then for then, now in zip(first.ticks, last.ticks, strict=True)]
        whole = sum(ticks) or 1
        return {
            "stolen_percent": round(100 * ticks[_STEAL] / whole, 1),
            "idle_percent": round(100 * ticks[_IDLE] / whole, 1),
            "page_ran_ms": round((last.ran_ns - first.ran_ns) / 1e6),
            "page_queued_ms": round((last.queued_ns - first.queued_ns) / 1e6),
        }


@contextmanager
def watch() -> Iterator[Machine]:
    machine = Machine()
    machine.start()
    try:
        yield machine
    finally:
        machine.end()


async def begin(page: chromium.Page) -> None:
    """From now on the page notes them."""
    await page.ask(_RECORD)


async def report(page: chromium.Page, machine: Machine) -> dict[str, Any]:
    """How long people waited, and of each who waited too long, why."""
    seen = await page.ask(_TELL)
    waits, origin_s = group(seen["events"]), seen["origin"] / 1000
    long = [_explain(wait, seen["tasks"], machine, origin_s) for wait in waits if wait.lasts_ms > LONG_MS]
    return {
        "interactions": seen["count"],
        "interaction_ms": _spread([one.lasts_ms for one in waits]),
        "interactions_over_100_ms": len(long),
        "of_these_while_stolen": sum(1 for item in long if item["stolen_percent"] > 100 * STOLEN),
        "over_100_ms": long,
        "asked": seen["asked"],
        "answered": len(seen["answers"]),
        "answer_ms": _spread(seen["answers"]) if seen["answers"] else None,
        **machine.between(machine.looks[0].at_s, time.time()),
    }


def group(events: list[list[Any]]) -> list[Wait]:
    """By interaction, in order."""
    longest: dict[int, Wait] = {}
    for number, what, began_ms, handled_ms, ended_ms, lasts_ms in events:
        if number not in longest or longest[number].lasts_ms < lasts_ms:
            longest[number] = Wait(what, began_ms, lasts_ms, handled_ms - began_ms, ended_ms - handled_ms)
    return list(longest.values())


def _explain(wait: Wait, tasks: list[list[float]], machine: Machine, origin_s: float) -> dict[str, Any]:
    longest = [lasts_ms for at_ms, lasts_ms in tasks if at_ms < wait.ends_ms and at_ms + lasts_ms > wait.began_ms]
    return {
        "what": wait.what,
        "ms": wait.lasts_ms,
        "delay_ms": round(wait.delay_ms),
        "handling_ms": round(wait.handling_ms),
        "painting_ms": round(wait.painting_ms),
        "longest_task_ms": max(longest, default=0),
        **machine.between(origin_s + wait.began_ms / 1000, origin_s + wait.ends_ms / 1000),
    }


def _spread(times_ms: list[float]) -> dict[str, float]:
    """INP leaves out one in fifty, as `p98` does."""
    found = sorted(times_ms) or [0.0]
    p98 = found[min(len(found) * 98 // 100, len(found) - 1)]
    return {"median": round(statistics.median(found)), "p98": round(p98), "worst": round(found[-1])}


def _probe(pages: list[int]) -> Look:
    ticks = tuple(map(int, _read(_PROC / "stat").partition(b"\n")[0].split()[1 : _TICKS + 1]))
    times = [tuple(map(int, found.split())) for pid in pages if (found := _read(_PROC / f"{pid}/schedstat"))]
    return Look(time.time(), ticks, sum(item[0] for item in times), sum(entry[1] for entry in times))


def _descendants(pid: int) -> list[int]:
    found = [pid]
    for parent in found:  # which grows meanwhile
        for thread in (_PROC / f"{parent}/task").glob("*/children"):
            found += map(int, _read(thread).split())
    return found


def _read(file: Path) -> bytes:
    """Nothing if it went away."""
    try:
        return file.read_bytes()
    except OSError:
        return b""
