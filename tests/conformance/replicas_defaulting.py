"""What Cluster API's webhook makes of replicas that are left out: the same for three kinds, of which one is served."""

from collections.abc import Iterator
from pathlib import Path

from tests.conformance.outcome import Json, Outcome, read_sections
from windlass.controllers.machine_pool import webhook
from windlass.controllers.worker_pools import annotations


def _read_error(new: Json) -> str:
    """What controllers of worker pools say of the annotations."""
    try:
        annotations.read((new.get("metadata") or {}).get("annotations") or {})
    except annotations.Unreadable as error:
        return str(error)
    return "nothing"


def run(path: Path) -> Iterator[Outcome]:
    for section, _, case in read_sections(path):
        try:
            found: Json = {"replicas": webhook.default(case["new"], case["old"])["spec"]["replicas"]}
        except webhook.Refused:
            told = case.get("read", {}).get("error_contains", "").partition("value: ")[2]
            found = {"error": told in _read_error(case["new"])}
        differences = () if found == case["expect"] else (f"expected {case['expect']}, found {found}",)
        yield Outcome(f"{section}: {case['name']}", 0 if differences else 1, 1, differences)
