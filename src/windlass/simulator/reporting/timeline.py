"""The timeline: what the story does to the cluster, and every decision with its reason, on the plots' axis of time."""

import html
from collections.abc import Iterator

from windlass.autoscaler.published.chronicle import Kind
from windlass.simulator.reporting import amounts, landmarks, paths
from windlass.simulator.reporting.runs import Run
from windlass.simulator.scenario import model

KINDS: dict[Kind, str] = {"up": "scale up", "down": "scale down", "trouble": "trouble", "wait": "waiting"}
"""Lanes from top to bottom, and what they are called."""

_LANDMARKS = 40
"""Steps of a story that are written at their time; a story with more of them would be unreadable."""


def draw_bands(run: Run, samples: int) -> str:
    """The times at which something lasts that the story does, behind a plot."""
    drawn = []
    for step in run.scenario.timeline:
        lasts_s = float(getattr(step, "lasts", 0.0))
        if lasts_s:
            begin, width = (samples * float(one) / run.lasts_s for one in (step.at, lasts_s))
            drawn.append(f'<rect class="band" x="{begin:.2f}" width="{width:.2f}" height="{paths.HEIGHT}"/>')
    return "".join(drawn)


def draw(run: Run, number: int) -> str:
    """Lanes of marks. What a mark means is in the row of the table below that has its number."""
    lanes = "".join(_lane(run, kind, name) for kind, name in KINDS.items() if _has(run, kind))
    told = amounts.count(len(run.decisions), "decision")
    return (
        f'<figure class="timeline" data-run="{number}"><figcaption><h3>Decisions</h3>'
        f'<p class="hint">{told}. Hover, or use the arrow keys, for the reason.</p></figcaption>'
        f'<div class="lanes" tabindex="0" role="listbox" aria-label="{told} on the timeline">{_story(run)}{lanes}'
        '<i class="cursor"></i><div class="tip" role="status" hidden></div></div></figure>'
    )


def _has(run: Run, kind: Kind) -> bool:
    return any(one.kind == kind for one in run.decisions)


def _lane(run: Run, kind: Kind, name: str) -> str:
    marks = "".join(
        f'<i data-d="{i}" style="left:{one.at_s / run.lasts_s:.2%}"></i>'
        for i, one in enumerate(run.decisions)
        if one.kind == kind
    )
    return f'<div class="lane {kind}"><span>{name}</span><div>{_lasting(run)}{marks}</div></div>'


def _lasting(run: Run) -> str:
    """Behind the lanes, what lies behind the plots as well."""
    return "".join(
        f'<u style="left:{float(step.at) / run.lasts_s:.2%};width:{float(step.lasts) / run.lasts_s:.2%}"></u>'
        for step in run.scenario.timeline
        if isinstance(step, model.Outage | model.StockOut | model.Unready | model.Trouble)
    )


def _story(run: Run) -> str:
    steps = sorted(run.scenario.timeline, key=lambda step: float(step.at))[:_LANDMARKS]
    if not steps:
        return ""
    placed = list(landmarks.place(landmarks.Landmark(describe(step), float(step.at) / run.lasts_s) for step in steps))
    drawn = "".join(_draw_landmark(mark, line) for mark, line in placed)
    lines = 1 + max(line for _, line in placed)
    return f'<div class="lane story" style="--lines:{lines}"><span>story</span><div>{_lasting(run)}{drawn}</div></div>'


def _draw_landmark(mark: landmarks.Landmark, line: int) -> str:
    kind, where = ("late", f"right:{1 - mark.share:.2%}") if mark.is_late else ("early", f"left:{mark.share:.2%}")
    return f'<b class="{kind}" style="{where};top:{1.15 * line:g}em">{html.escape(mark.words)}</b>'


def describe(step: model.AnyStep) -> str:
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


def rows(run: Run, number: int) -> Iterator[str]:
    """All decisions as rows of a table."""
    for i, one in enumerate(run.decisions):
        when = amounts.moment(one.at_s, run.lasts_s)
        seconds = f"{one.at_s % 60:04.1f}"
        yield (
            f'<tr class="{one.kind}" id="d{number}-{i}" data-at="{one.at_s:g}"><td>{when}:{seconds}</td>'
            f"<td>{html.escape(one.said)}</td><td>{html.escape(one.why)}</td></tr>"
        )
