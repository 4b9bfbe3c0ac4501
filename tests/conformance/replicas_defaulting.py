"""What Cluster API's webhook makes of replicas that are left out, put to the one clamp that both operators share."""

from collections.abc import Iterator
from pathlib import Path

from tests.conformance.outcome import Json, Outcome, read_sections
from windlass.controllers.worker_pools import annotations, sizes


def default_replicas(new: Json, old: Json | None) -> int:
    """What Cluster API's webhook makes of an object's replicas. `annotations.Unreadable` if it cannot."""
    given = (new.get("spec") or {}).get("replicas")
    if given is not None:
        return int(given)
    limits = annotations.read((new.get("metadata") or {}).get("annotations") or {})
    return sizes.default_replicas(limits, ((old or {}).get("spec") or {}).get("replicas"))


def run(path: Path) -> Iterator[Outcome]:
    """replicas_defaulting: the same for all three kinds."""
    for section, _, case in read_sections(path):
        try:
            found: Json = {"replicas": default_replicas(case["new"], case["old"])}
        except annotations.Unreadable as error:
            found = {"error": True}
            told = case.get("read", {}).get("error_contains", "").partition("value: ")[2]
            if told not in str(error):
                found = {"error": str(error)}
        differences = () if found == case["expect"] else (f"expected {case['expect']}, found {found}",)
        yield Outcome(f"{section}: {case['name']}", 0 if differences else 1, 1, differences)
