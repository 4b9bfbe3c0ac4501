"""What may be said of authority, and what may follow it, put to the rules that are kept here.

Whether a server keeps the same is seen on the test bed (tests/testbed/test_openshift_sync.py).
"""

from collections.abc import Iterator
from pathlib import Path

from tests.conformance.outcome import Json, Outcome, read_sections
from windlass.controllers.openshift.machineset_sync import authority_migration


def run(path: Path) -> Iterator[Outcome]:
    for section, _, case in read_sections(path):
        is_set = section.startswith("machinesets")
        differences = tuple(_evaluate(case, is_set))
        yield Outcome(f"{section}: {case['name']}", 0 if differences else 1, 1, differences)


def _evaluate(case: Json, is_set: bool) -> Iterator[str]:
    expected = case["expect"]
    last = case.get("updated") or case["initial"]
    on_object = authority_migration.validate_spec(last.get("spec") or {})
    on_status = authority_migration.validate_status_transition(
        case["initial"].get("status") or {}, last.get("status") or {}
    )
    refused = "object" if on_object else "status" if on_status and "updated" in case else None
    if refused != expected.get("refused_on"):
        yield f"refused_on: expected {expected.get('refused_on')}, found {refused}: {on_object + on_status}"
    if expected.get("error_contains", "") not in "; ".join(on_object + on_status):
        yield f"error_contains: expected {expected['error_contains']!r}, found {on_object + on_status}"
    if "object" in expected:
        made = {**last, "spec": authority_migration.default_spec(last.get("spec") or {}, is_set=is_set)}
        for name, wanted in expected["object"].items():
            if made.get(name) != wanted:
                yield f"{name}: expected {wanted!r}, found {made.get(name)!r}"
