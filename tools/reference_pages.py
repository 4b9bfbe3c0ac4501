"""Pages: every generated page of docs, and whether those that are there are still true."""

from collections.abc import Callable, Mapping
from pathlib import Path

from tools import (
    annotations_reference,
    chart_values_reference,
    cli_reference,
    crd_reference,
    events_reference,
    http_api_reference,
    licences,
    metrics_reference,
    rbac,
    releases_reference,
    scenario_reference,
    source_analysis,
    verdicts_reference,
)
from windlass.autoscaler.options import command_line

FOLDER = source_analysis.ROOT / "docs" / "reference"

PAGES: Mapping[str, Callable[[], str]] = {
    "annotations.md": annotations_reference.page,
    "chart-values.md": chart_values_reference.page,
    "commands.md": cli_reference.page,
    "conditions.md": events_reference.page_of_conditions,
    "custom-resources.md": crd_reference.page,
    "events.md": events_reference.page_of_events,
    "http-api.md": http_api_reference.page,
    "licences.md": licences.page,
    "metrics.md": metrics_reference.page,
    "permissions.md": rbac.page,
    "releases.md": releases_reference.page,
    "scenario.md": scenario_reference.page,
    "verdicts.md": verdicts_reference.page,
}
"""Of docs/reference."""


def write() -> list[Path]:
    """Write what is missing or no longer true; which."""
    stale, made = find_stale(), _make()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in stale:
        path.write_text(made[path], encoding="utf-8")
    return stale


def find_stale() -> list[Path]:
    """Pages that are missing, or say something else than the code."""
    return [path for path, text in _make().items() if not path.exists() or path.read_text(encoding="utf-8") != text]


def _make() -> dict[Path, str]:
    """The text of every page, by where it is."""
    flags = {FOLDER.parent / "flags.md": command_line.format_markdown()}
    schema = {FOLDER / "http-api.schema.json": http_api_reference.make_schema()}
    return flags | schema | {FOLDER / name: make() for name, make in PAGES.items()}
