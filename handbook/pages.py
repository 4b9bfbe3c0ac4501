"""Pages: every page of docs/reference, and whether those that are there are still true."""

from collections.abc import Callable, Mapping
from pathlib import Path

from handbook import commands, definitions, events, keys, licences, metrics, rights, scenario, source, verdicts

FOLDER = source.ROOT / "docs" / "reference"

PAGES: Mapping[str, Callable[[], str]] = {
    "annotations.md": keys.page,
    "commands.md": commands.page,
    "conditions.md": events.page_of_conditions,
    "custom-resources.md": definitions.page,
    "events.md": events.page_of_events,
    "licences.md": licences.page,
    "metrics.md": metrics.page,
    "permissions.md": rights.page,
    "scenario.md": scenario.page,
    "verdicts.md": verdicts.page,
}


def write() -> list[Path]:
    """Write what is missing or no longer true; which."""
    stale = find_stale()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in stale:
        path.write_text(PAGES[path.name](), encoding="utf-8")
    return stale


def find_stale() -> list[Path]:
    """Pages that are missing, or say something else than the code."""
    made = {FOLDER / name: make() for name, make in PAGES.items()}
    return [path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
