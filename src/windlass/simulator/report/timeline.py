"""Timeline of a run: scenario steps and autoscaler decisions with their reasons, on the plots' time axis."""

import html
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from windlass.observability.decision_log import EntryKind
from windlass.simulator.autoscaler_run import ScenarioRun
from windlass.simulator.report import markup, number_format
from windlass.simulator.scenario import model

_LATE_SHARE = 0.6
"""Of the time: landmarks after this have their words on the left, or a phone would cut them off."""

_MAX_LINES = 5
"""Of words above each other at most."""

_LETTER_SHARE = 0.02
"""Of the time: what one letter covers on a phone, where the axis is shortest."""


@dataclass(frozen=True, slots=True)
class StepLabel:
    """A mark with its words beside it: before it where there is no room for them after it."""

    words: str
    share: float
    """Of the time that has passed by then."""

    @property
    def is_late(self) -> bool:
        return self.share > _LATE_SHARE

    @property
    def covers(self) -> tuple[float, float]:
        width = _LETTER_SHARE * (len(self.words) + 1)
        return (self.share - width, self.share) if self.is_late else (self.share, self.share + width)


def place_labels(marks: Iterable[StepLabel]) -> Iterator[tuple[StepLabel, int]]:
    """Each mark with the first line on which its words cover no others, or else with the line that is free first."""
    ends = [-1.0] * _MAX_LINES
    for mark in sorted(marks, key=lambda mark: mark.covers):
        begin, end = mark.covers
        line = next((i for i, before in enumerate(ends) if before <= begin), ends.index(min(ends)))
        ends[line] = end
        yield mark, line


LANE_TITLES: dict[EntryKind, str] = {"up": "scale up", "down": "scale down", "trouble": "trouble", "wait": "waiting"}
"""Lanes from top to bottom, and what they are called."""

_MAX_LABELS = 40
"""Steps of a story that are written at their time; a story with more of them would be unreadable."""


def draw_bands(run: ScenarioRun, samples: int) -> str:
    """The times at which something lasts that the story does, behind a plot."""
    drawn = []
    for step in run.scenario.timeline:
        lasts_s = float(getattr(step, "lasts", 0.0))
        if lasts_s:
            begin, width = (samples * float(one) / run.lasts_s for one in (step.at, lasts_s))
            drawn.append(f'<rect class="band" x="{begin:.2f}" width="{width:.2f}" height="{markup.HEIGHT}"/>')
    return "".join(drawn)


def draw_timeline(run: ScenarioRun, number: int) -> str:
    """Lanes of marks. What a mark means is in the row of the table below that has its number."""
    lanes = "".join(_lane(run, kind, name) for kind, name in LANE_TITLES.items() if _has_decisions(run, kind))
    told = number_format.format_count(len(run.decisions), "decision")
    return (
        f'<figure class="timeline" data-run="{number}"><figcaption><h3>Decisions</h3>'
        f'<p class="hint">{told}. Hover, or use the arrow keys, for the reason.</p></figcaption>'
        f'<div class="lanes" tabindex="0" role="listbox" aria-label="{told} on the timeline">{_story_lane(run)}{lanes}'
        '<i class="cursor"></i><div class="tip" role="status" hidden></div></div></figure>'
    )


def _has_decisions(run: ScenarioRun, kind: EntryKind) -> bool:
    return any(one.kind == kind for one in run.decisions)


def _lane(run: ScenarioRun, kind: EntryKind, name: str) -> str:
    marks = "".join(
        f'<i data-d="{i}" style="left:{one.at_s / run.lasts_s:.2%}"></i>'
        for i, one in enumerate(run.decisions)
        if one.kind == kind
    )
    return f'<div class="lane {kind}"><span>{name}</span><div>{_lasting(run)}{marks}</div></div>'


def _lasting(run: ScenarioRun) -> str:
    """Behind the lanes, what lies behind the plots as well."""
    return "".join(
        f'<u style="left:{float(step.at) / run.lasts_s:.2%};width:{float(step.lasts) / run.lasts_s:.2%}"></u>'
        for step in run.scenario.timeline
        if isinstance(step, model.Outage | model.StockOut | model.Unready | model.Trouble)
    )


def _story_lane(run: ScenarioRun) -> str:
    steps = sorted(run.scenario.timeline, key=lambda step: float(step.at))[:_MAX_LABELS]
    if not steps:
        return ""
    placed = list(place_labels(StepLabel(describe_step(step), float(step.at) / run.lasts_s) for step in steps))
    drawn = "".join(_draw_label(mark, line) for mark, line in placed)
    lines = 1 + max(line for _, line in placed)
    return f'<div class="lane story" style="--lines:{lines}"><span>story</span><div>{_lasting(run)}{drawn}</div></div>'


def _draw_label(mark: StepLabel, line: int) -> str:
    kind, where = ("late", f"right:{1 - mark.share:.2%}") if mark.is_late else ("early", f"left:{mark.share:.2%}")
    return f'<b class="{kind}" style="{where};top:{1.15 * line:g}em">{html.escape(mark.words)}</b>'


def describe_step(step: model.AnyStep) -> str:
    """A step of the story in two or three words."""
    match step:
        case model.Scale(workload=workload, to=to):
            return f"{workload} to {to}"
        case model.Jobs(workload=workload, count=count, times=times):
            return f"{count} {workload} jobs" + (f" ×{times}" if times > 1 else "")
        case model.Outage(zone=zone):
            return f"zone {zone} is lost"
        case model.Trouble():
            return "API trouble"
        case model.StockOut(group=group):
            return f"no {group} in stock"
        case model.Vanish(group=group, count=count) | model.Unready(group=group, count=count):
            word = "vanish" if isinstance(step, model.Vanish) else "turn unready"
            return f"{count} {group} {word}"
        case model.Rollout(workload=workload):
            return f"{workload} rollout"
        case model.Remove(workload=workload):
            return f"{workload} is removed"
        case model.Upgrade(group=group):
            return f"{group} upgrade"
        case model.Resize(group=group, to=to):
            return f"{group} set to {to}"


def decision_rows(run: ScenarioRun, number: int) -> Iterator[str]:
    """All decisions as rows of a table."""
    for i, one in enumerate(run.decisions):
        when = number_format.format_time(one.at_s, run.lasts_s)
        seconds = f"{one.at_s % 60:04.1f}"
        yield (
            f'<tr class="{one.kind}" id="d{number}-{i}" data-at="{one.at_s:g}"><td>{when}:{seconds}</td>'
            f"<td>{html.escape(one.said)}</td><td>{html.escape(one.why)}</td></tr>"
        )
