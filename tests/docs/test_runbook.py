"""The runbook has an entry for every alert and every reason, and each says what to look at and what to do."""

import inspect
import re

import pytest

from tests.docs.test_alerts import read_alerts
from tools import events_reference, reason_codes
from windlass.observability import decision_log

ENTRIES = events_reference.find()


def test_every_alert_has_an_entry_and_every_entry_an_alert() -> None:
    told = {name for name, entry in ENTRIES.items() if entry.section == events_reference.ALERTS}
    assert told == {rule["alert"] for rule in read_alerts()}


def test_no_entry_is_left_of_a_reason_that_nobody_gives() -> None:
    told = {name for name, entry in ENTRIES.items() if entry.section != events_reference.ALERTS}
    assert sorted(told - set(reason_codes.find())) == []


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=lambda entry: entry.name)
def test_an_entry_says_what_it_means_how_to_look_and_what_to_do(entry: events_reference.Entry) -> None:
    assert entry.lead
    assert re.fullmatch(r".+[.]", entry.sentence)
    assert re.search(r"^- \*\*Look\*\* \S", entry.text, re.MULTILINE)
    assert re.search(r"^- \*\*Do\*\* \S", entry.text, re.MULTILINE)


@pytest.mark.parametrize("rule", read_alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_is_as_bad_as_the_runbook_says(rule: dict[str, dict[str, str]]) -> None:
    assert ENTRIES[str(rule["alert"])].lead.lower() == rule["labels"]["severity"]


def _to_text(one: str | frozenset[str]) -> str:
    """The same in every process: sets have no order of their own."""
    return one if isinstance(one, str) else "-".join(sorted(one))


@pytest.mark.parametrize(("reason", "kinds"), sorted(reason_codes.find_events().items()), ids=_to_text)
def test_an_event_is_of_the_type_that_the_runbook_says(reason: str, kinds: frozenset[str]) -> None:
    lead = ENTRIES[reason].lead
    assert {kind for kind in ("Normal", "Warning") if kind in lead} == (kinds or {"Warning"})


def test_every_reason_of_the_decision_log_is_an_entry() -> None:
    """The dashboard and reports link to it."""
    named = re.findall(r'"((?:[A-Z][a-z]+){2,})"', inspect.getsource(decision_log))
    assert {"TriggeredScaleUp", "NotTriggerScaleUp", "ScaleDownFailed"} <= set(named)
    assert sorted(set(named) - set(ENTRIES)) == []


def test_no_two_entries_have_one_name() -> None:
    headings = re.findall(r"^### (.+)$", events_reference.RUNBOOK.read_text(), re.MULTILINE)
    assert sorted(set(headings)) == sorted(headings)
