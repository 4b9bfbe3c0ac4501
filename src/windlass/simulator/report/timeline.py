"""Timeline of a run: scenario steps and autoscaler decisions with their reasons, on the plots' time axis."""

import html
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from windlass import formatting
from windlass.observability.decision_log import EntryKind
from windlass.simulator.autoscaler_run import ScenarioRun
from windlass.simulator.report import markup
from windlass.simulator.scenario import model

_LATE_SHARE = 0.6
"""Share of the time from which labels are drawn to the left of their mark, so that they fit on a phone."""

_MAX_LINES = 5
"""Most lines of labels."""

_LETTER_SHARE = 0.02
"""Share of the time that one letter covers on a phone, where the axis is shortest."""


@dataclass(frozen=True, slots=True)
class StepLabel:
    """A mark with a label: after it, or before it where there is no room."""

    words: str
    share: float
    """Share of the time that has passed."""

    @property
    def is_late(self) -> bool:
        return self.share > _LATE_SHARE

    @property
    def covers(self) -> tuple[float, float]:
        width = _LETTER_SHARE * (len(self.words) + 1)
        return (self.share - width, self.share) if self.is_late else (self.share, self.share + width)


def place_labels(marks: Iterable[StepLabel]) -> Iterator[tuple[StepLabel, int]]:
    """Each mark with the first line on which its label covers no other, or else with the line that is free first."""
    ends = [-1.0] * _MAX_LINES
    for mark in sorted(marks, key=lambda mark: mark.covers):
        begin, end = mark.covers
        line = next((i for i, before in enumerate(ends) if before <= begin), ends.index(min(ends)))
        ends[line] = end
        yield mark, line


LANE_TITLES: dict[EntryKind, str] = {"up": "scale up", "down": "scale down", "trouble": "trouble", "wait": "waiting"}
"""Lanes from top to bottom, and their names."""

_MAX_LABELS = 40
"""Most steps with labels; more of them would be unreadable."""


def draw_bands(run: ScenarioRun, samples: int) -> str:
    """Bands behind a plot for scenario steps with a duration."""
    drawn = []
    for step in run.scenario.timeline:
        lasts_s = float(getattr(step, "lasts", 0.0))
        if lasts_s:
            begin, width = (samples * float(item) / run.lasts_s for item in (step.at, lasts_s))
            drawn.append(f'<rect class="band" x="{begin:.2f}" width="{width:.2f}" height="{markup.HEIGHT}"/>')
    return "".join(drawn)


def draw_timeline(run: ScenarioRun, number: int) -> str:
    """Lanes of marks. The table row with the number of a mark describes it."""
    lanes = "".join(_lane(run, kind, name) for kind, name in LANE_TITLES.items() if _has_decisions(run, kind))
    told = formatting.format_count(len(run.decisions), "decision", thousands=",")
    return (
        f'<figure class="timeline" data-run="{number}"><figcaption><h3>Decisions</h3>'
        f'<p class="hint">{told}. Hover, or use the arrow keys, for the reason.</p></figcaption>'
        f'<div class="lanes" tabindex="0" role="listbox" aria-label="{told} on the timeline">{_story_lane(run)}{lanes}'
        '<i class="cursor"></i><div class="tip" role="status" hidden></div></div></figure>'
    )


def _has_decisions(run: ScenarioRun, kind: EntryKind) -> bool:
    return any(log_entry.kind == kind for log_entry in run.decisions)


def _lane(run: ScenarioRun, kind: EntryKind, name: str) -> str:
    marks = "".join(
        f'<i data-d="{i}" style="left:{log_entry.at_s / run.lasts_s:.2%}"></i>'
        for i, log_entry in enumerate(run.decisions)
        if log_entry.kind == kind
    )
    return f'<div class="lane {kind}"><span>{name}</span><div>{_step_bands(run)}{marks}</div></div>'


def _step_bands(run: ScenarioRun) -> str:
    """Bands behind the lanes, as behind the plots."""
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
    return (
        f'<div class="lane story" style="--lines:{lines}"><span>story</span><div>{_step_bands(run)}{drawn}</div></div>'
    )


def _draw_label(mark: StepLabel, line: int) -> str:
    kind, where = ("late", f"right:{1 - mark.share:.2%}") if mark.is_late else ("early", f"left:{mark.share:.2%}")
    return f'<b class="{kind}" style="{where};top:{1.15 * line:g}em">{html.escape(mark.words)}</b>'


def describe_step(step: model.AnyStep) -> str:
    """A short description of a scenario step."""
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
    """All decisions as table rows."""
    for i, log_entry in enumerate(run.decisions):
        when = formatting.format_scenario_time(log_entry.at_s, run.lasts_s)
        seconds = f"{log_entry.at_s % 60:04.1f}"
        yield (
            f'<tr class="{log_entry.kind}" id="d{number}-{i}" data-at="{log_entry.at_s:g}"><td>{when}:{seconds}</td>'
            f"<td>{html.escape(log_entry.said)}</td><td>{html.escape(log_entry.why)}</td></tr>"
        )
