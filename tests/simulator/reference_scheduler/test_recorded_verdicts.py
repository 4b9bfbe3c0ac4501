"""Verdicts of the real kube-scheduler: plugin, code and reasons of every pod on every node."""

from pathlib import Path

import pytest

from tests.conformance import reference_scheduler
from tests.conformance.outcome import Json, read_lines

SAMPLE = Path(__file__).parent / "data" / "verdicts.jsonl.gz"
UNPARSABLE = Path(__file__).parents[2] / "data" / "vectors" / "scheduler" / "unparsable.jsonl.gz"
VECTORS = Path(__file__).parents[4] / "shared" / "vectors" / "scheduler"
TOPICS = ("interpod", "mixed", "names", "nodeaffinity", "ports", "resources", "spread", "taints", "volumes")


@pytest.mark.parametrize("case", list(read_lines(SAMPLE)), ids=lambda case: case["name"])
def test_a_recorded_case_is_judged_as_kube_scheduler_judged_it(case: Json) -> None:
    assert reference_scheduler.run_case(case).differences == ()


@pytest.mark.parametrize("case", list(read_lines(UNPARSABLE)), ids=lambda case: case["name"])
def test_selectors_that_cannot_be_parsed_are_judged_as_kube_scheduler_judged_them(case: Json) -> None:
    assert reference_scheduler.run_case(case).differences == ()


@pytest.mark.skipif(not VECTORS.is_dir(), reason="the shared vectors are not beside the project")
@pytest.mark.parametrize("topic", TOPICS)
def test_every_vector_of_a_topic_agrees(topic: str) -> None:
    outcomes = list(reference_scheduler.run(VECTORS / f"{topic}.jsonl.gz"))
    assert sum(outcome.total for outcome in outcomes) > 0
    assert [text for outcome in outcomes for text in outcome.differences] == []
