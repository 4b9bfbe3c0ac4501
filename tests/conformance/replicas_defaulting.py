"""What Cluster API's webhook makes of replicas that are left out: the same for three kinds, of which one is served."""

from collections.abc import Iterator
from pathlib import Path

from tests.conformance.outcome import Json, Outcome, read_sections
from windlass.controllers import machine_deployments
from windlass.controllers.machine_pool import webhook


def _read_error(new: Json) -> str:
    """What controllers of worker pools say of the annotations."""
    try:
        machine_deployments.limits_from_annotations((new.get("metadata") or {}).get("annotations") or {})
    except machine_deployments.InvalidSizeAnnotation as error:
        return str(error)
    return "nothing"


def run(path: Path) -> Iterator[Outcome]:
    for section, _, case in read_sections(path):
        try:
            found: Json = {"replicas": webhook.default_machine_pool(case["new"], case["old"])["spec"]["replicas"]}
        except webhook.DefaultingError:
            told = case.get("read", {}).get("error_contains", "").partition("value: ")[2]
            found = {"error": told in _read_error(case["new"])}
        differences = () if found == case["expect"] else (f"expected {case['expect']}, found {found}",)
        yield Outcome(f"{section}: {case['name']}", 0 if differences else 1, 1, differences)
