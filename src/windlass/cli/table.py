"""A report for people: those that fit first, then those that do not and why, then what was set aside."""

import textwrap
from collections.abc import Iterable, Iterator

from windlass.cli import findings
from windlass.cli.style import Style

_NAMES = 4
"""Node names that are told before the rest is counted."""
_INDENT = 7
_COLUMN = 34
"""Room for what most filters say; longer reasons push their detail to the right."""
_MARGIN = " " * _INDENT


def lines(report: findings.Report, style: Style, width: int) -> Iterator[str]:
    """The table, line by line."""
    waiting = sum(finding.count for finding in report.pending)
    yield f"{_count(report.nodes, 'node')}, {_count(report.running, 'pod')} running, {waiting} pending"
    fitting = [finding for finding in report.pending if finding.fits]
    homeless = [finding for finding in report.pending if not finding.fits]
    yield from _fitting(fitting, style)
    for finding in homeless:
        yield ""
        yield from _homeless(finding, style, width)
    yield ""
    yield _conclude(waiting, sum(finding.count for finding in homeless))


def explain(finding: findings.Finding, style: Style, width: int) -> Iterator[str]:
    """One pod, node by node."""
    yield f"{style.strong(_title(finding))}  {_requests(finding)}"
    for note in finding.notes:
        yield style.note(f"note: {note}")
    yield ""
    names = _widest(("NODE", *(verdict.node for verdict in finding.verdicts)))
    rules = _widest(("REFUSED BY", *(verdict.rule for verdict in finding.verdicts)))
    yield style.faint(f"{'NODE':{names}}  {'REFUSED BY':{rules}}  WHY")
    for verdict in finding.verdicts:
        if verdict.fits:
            yield f"{verdict.node:{names}}  {style.good('fits')}"
        else:
            head = f"{verdict.node:{names}}  {style.bad(f'{verdict.rule:{rules}}')}  "
            for told in _tell(verdict, width - names - rules - 4):
                yield head + told
                head = " " * (names + rules + 4)
    yield ""
    yield from textwrap.wrap(finding.message, width)


def _tell(verdict: findings.Verdict, width: int) -> Iterator[str]:
    for reason, detail in zip(verdict.reasons, verdict.details, strict=True):
        if len(reason) + 2 + len(detail) <= width:
            yield f"{reason}: {detail}" if detail else reason
        else:
            yield f"{reason}:"
            yield f"  {detail}"


def set_aside(report: findings.Report, style: Style) -> Iterator[str]:
    """What could not be read, and what else to know."""
    for warning in report.warnings:
        yield f"{style.note('warning:')} {warning}"
    for error in report.set_aside:
        found = "nothing" if error.found is None else str(error.found)
        yield f"{style.note('set aside:')} {error.kind} {error.name}, {error.field}"
        yield f"  found {found}, expected {error.accepted}"


def _fitting(fitting: list[findings.Finding], style: Style) -> Iterator[str]:
    if not fitting:
        return
    yield ""
    width = _widest(_title(finding) for finding in fitting)
    yield style.faint(f"{'FITS':{_INDENT}}{'POD':{width}}  ON")
    for finding in fitting:
        share = style.good(f"{_share(finding):{_INDENT}}")
        yield f"{share}{style.strong(f'{_title(finding):{width}}')}  {_list(finding.fits, _NAMES)}"
        yield from _notes(finding, style)


def _homeless(finding: findings.Finding, style: Style, width: int) -> Iterator[str]:
    yield f"{style.bad(f'{_share(finding):{_INDENT}}')}{style.strong(_title(finding))}  {_requests(finding)}"
    yield from _notes(finding, style)
    if not finding.reasons:
        yield f"{_MARGIN}{finding.message}"
    heads = [f"{reason.count} {reason.reason}" if reason.nodes else reason.reason for reason in finding.reasons]
    for head, reason in zip(heads, finding.reasons, strict=True):
        line = f"{_MARGIN}{head:{_COLUMN}}  " if reason.detail else f"{_MARGIN}{head}"
        if len(line) + len(reason.detail) <= width:
            yield line + style.faint(reason.detail)
        else:
            yield line.rstrip()
            yield f"{_MARGIN}{'':{_COLUMN}}  {style.faint(reason.detail)}"


def _notes(finding: findings.Finding, style: Style) -> Iterator[str]:
    for note in finding.notes:
        yield f"{_MARGIN}{style.note(f'note: {note}')}"


def _conclude(waiting: int, homeless: int) -> str:
    fitting = waiting - homeless
    if not waiting:
        return "No pod is pending."
    if not homeless:
        return "The pending pod fits." if waiting == 1 else f"Each of the {waiting} pending pods fits somewhere."
    if not fitting:
        return "The pending pod fits nowhere." if waiting == 1 else f"None of the {waiting} pending pods fits anywhere."
    return f"{fitting} of {waiting} pending pods {_fit(fitting)}, {homeless} {_fit(homeless)} nowhere."


def _fit(number: int) -> str:
    return "fits" if number == 1 else "fit"


def _title(finding: findings.Finding) -> str:
    return finding.pod if finding.count == 1 else f"{finding.pod} and {finding.count - 1} more"


def _requests(finding: findings.Finding) -> str:
    return ", ".join(f"{resource} {amount}" for resource, amount in finding.requests.items()) or "no requests"


def _share(finding: findings.Finding) -> str:
    return f"{len(finding.fits)}/{finding.nodes}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _list(names: tuple[str, ...], limit: int) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def _widest(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)
