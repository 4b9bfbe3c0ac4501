"""Pages of events and conditions: what the runbook says of each reason, in one line, with the way to the rest."""

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tools import markdown_tables, reason_codes, source_analysis

RUNBOOK = source_analysis.ROOT / "docs" / "runbook.md"
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_ENTRY = re.compile(r"^### (.+)$", re.MULTILINE)
_LEAD = re.compile(r"\*\*(.+?)\.\*\* (.+?)(?:\n\n|\Z)", re.DOTALL)
ALERTS = "Alerts"


@dataclass(frozen=True, slots=True)
class Entry:
    """What the runbook says of an alert or a reason."""

    name: str
    section: str
    lead: str
    """Where it is found: on which object, in which condition, how bad."""
    sentence: str
    text: str
    """All of it."""

    @property
    def link(self) -> str:
        return f"[{self.name}](../runbook.md#{self.name.lower()})"

    @property
    def is_event(self) -> bool:
        return "Normal" in self.lead or "Warning" in self.lead


@functools.cache
def find() -> Mapping[str, Entry]:
    """Every entry of the runbook, by name."""
    parts = _SECTION.split(RUNBOOK.read_text(encoding="utf-8"))
    sections = zip(parts[1::2], parts[2::2], strict=True)
    return {entry.name: entry for title, text in sections for entry in _read(title, text)}


def page_of_events() -> str:
    lines = markdown_tables.begin(
        "Events",
        "Every reason under which windlass writes events; each is a link to what to do. `kubectl get events -A "
        "--field-selector reason=REASON` finds them.",
    )
    return "\n".join([*lines, *_report(entry for entry in _reasons() if entry.is_event)])


def page_of_conditions() -> str:
    lines = markdown_tables.begin(
        "Conditions",
        "Every type of condition that windlass writes, and every reason that it gives, with a link to what to do.",
    )
    types = ((markdown_tables.code(name), told) for name, told in sorted(reason_codes.TYPES.items()))
    lines += ["## Types", "", *markdown_tables.table(("type", "of what, and what it says when it is True"), types)]
    return "\n".join([*lines, *_report(entry for entry in _reasons() if not entry.is_event or "=" in entry.lead)])


def _reasons() -> Iterator[Entry]:
    return (entry for entry in find().values() if entry.section != ALERTS)


def _report(entries: Iterator[Entry]) -> Iterator[str]:
    by_section: dict[str, list[Entry]] = {}
    for entry in entries:
        by_section.setdefault(entry.section, []).append(entry)
    for section, several in by_section.items():
        yield from (f"## {section}", "")
        yield from markdown_tables.table(
            ("reason", "where", "what it says"), ((e.link, e.lead, e.sentence) for e in several)
        )


def _read(section: str, text: str) -> Iterator[Entry]:
    parts = _ENTRY.split(text)
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        found = _LEAD.search(body)
        lead, sentence = (found[1], " ".join(found[2].split())) if found else ("", "")
        yield Entry(name.strip(), section, lead, sentence, body)
