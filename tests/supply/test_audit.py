"""An audit that could not ask is not one that found nothing."""

import json

from handbook import audit

CLEAN = {"name": "idna", "version": "3.20", "vulns": []}
KNOWN = {"name": "h2", "version": "4.4.1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["4.4.2"], "aliases": []}]}
SKIPPED = {"name": "rich", "skip_reason": "not found on PyPI"}


def read(*listed: object) -> audit.Finding:
    return audit.read(json.dumps({"dependencies": listed, "fixes": []}), "", len(listed))


def test_nothing_known_of_all_that_was_asked_about() -> None:
    assert (read(CLEAN).code, read(CLEAN).tell()) == (0, "audit: nothing is known against 1 packages")


def test_what_is_known_is_told_and_fails_even_where_not_all_could_be_asked_about() -> None:
    found = read(CLEAN, KNOWN, SKIPPED)
    assert found.code == audit.VULNERABLE == 1
    assert found.tell().splitlines() == ["h2 4.4.1: PYSEC-1, mended in 4.4.2", "audit: 1 known in 3 packages"]


def test_a_package_that_nobody_knows_was_not_asked_about() -> None:
    found = read(CLEAN, SKIPPED)
    assert found.code == audit.NOT_ASKED == 3
    assert found.tell() == "audit: COULD NOT ASK about 1 of 2 packages: not found on PyPI"


def test_a_service_that_cannot_be_reached_was_not_asked() -> None:
    found = audit.read("", "Traceback\nConnectionError: no such host\n", 7)
    assert found.code == audit.NOT_ASKED
    assert found.tell() == "audit: COULD NOT ASK about 7 of 7 packages: ConnectionError: no such host"
