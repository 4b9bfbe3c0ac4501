"""Every question that people ask about Cluster Autoscaler has an answer here, and something to try that works."""

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.run import windlass
from tools import markdown_documents, source_analysis

FAQ = source_analysis.ROOT / "docs" / "faq.md"

QUESTIONS = (
    "what-is-it", "when-does-it-change-the-size-of-a-cluster", "which-pods-keep-a-node", "which-version-should-i-use",
    "is-it-ready-for-production", "how-soon-does-it-act", "how-does-it-go-together-with-the-horizontal-pod-autoscaler",
    "what-are-good-practices", "should-i-scale-nodes-by-their-cpu-usage",
    "how-does-it-differ-from-autoscalers-that-go-by-usage", "can-both-be-used-together",
    "what-about-priorities-and-preemption", "how-are-nodes-removed",
    "what-do-startup-status-and-ignore-taints-mean", "how-do-i-run-in-several-zones", "how-do-i-watch-it",
    "how-do-i-see-all-of-its-events", "how-do-i-get-down-to-one-node", "how-do-i-let-a-group-go-down-to-zero",
    "how-do-i-keep-a-certain-node", "how-do-i-keep-all-nodes-that-have-pods", "how-do-i-make-it-quicker-or-slower",
    "how-do-i-keep-room-for-what-comes-next", "how-do-i-have-a-daemonsets-pods-evicted-or-not",
    "what-if-a-node-has-as-many-volumes-as-it-may-have", "how-do-i-ask-for-room-for-a-whole-batch",
    "how-do-i-have-many-requests-answered-quickly", "are-the-times-and-rules-final", "how-does-scaling-up-work",
    "how-does-scaling-down-work", "does-it-honour-disruption-budgets", "does-it-let-pods-end-in-their-own-time",
    "what-about-nodes-that-are-not-ready", "how-fast-is-it", "how-fast-is-the-horizontal-pod-autoscaler-with-it",
    "where-are-designs-to-be-found", "what-are-expanders", "does-it-honour-node-affinity",
    "which-parameters-are-there", "why-is-a-node-with-little-on-it-not-removed",
    "how-do-i-let-kube-systems-pods-move", "why-do-pods-wait-and-nothing-is-added", "it-worked-yesterday-what-now",
    "how-do-i-see-what-it-is-doing", "how-do-i-make-it-log-more", "how-do-i-have-logs-as-json",
    "which-events-does-it-write", "why-are-there-fewer-nodes-than-the-minimum-or-more-than-the-maximum",
    "what-if-the-provider-has-no-machines-left", "which-language-version-builds-it",
    "how-do-i-run-end-to-end-tests", "how-do-i-try-a-change-before-i-send-it",
    "how-are-dependencies-brought-up-to-date",
)  # fmt: skip
"""One for each question of Cluster Autoscaler's FAQ, in its order, but for logging, which belongs to trouble."""

QUICK = ("stock-out", "overprovisioning")
"""Stories that take about a second each."""


def read_answers() -> dict[str, str]:
    parts = re.split(r"^### (.+)$", FAQ.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def find_played() -> list[str]:
    """Command lines of the FAQ that need no cluster and little time, in order."""
    lines = [line for line in markdown_documents.find_blocks(FAQ) if line.startswith("windlass ")]
    wanted = [line for line in lines if "--recording stock-out.rec" in line or line.startswith("windlass fit ")]
    played = [line for line in lines if line.startswith("windlass simulate ") and line.split()[2] in QUICK]
    return [line for line in dict.fromkeys(lines) if line in {*wanted, *played}]


def test_every_question_has_an_answer() -> None:
    anchors = markdown_documents.find_anchors(FAQ)
    assert [question for question in QUESTIONS if question not in anchors] == []
    assert len(set(QUESTIONS)) == len(QUESTIONS) == len(read_answers())


@pytest.mark.parametrize(("question", "answer"), read_answers().items(), ids=lambda text: text[:30])
def test_an_answer_has_something_to_try(question: str, answer: str) -> None:
    assert question.endswith(("?", "now?"))
    assert re.search(r"^```sh\n\S", answer, re.MULTILINE)


def test_what_needs_no_cluster_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = find_played()
    assert len(lines) >= 8
    (tmp_path / "examples").symlink_to(source_analysis.ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    for line in lines:
        outcome = windlass(*shlex.split(line)[1:])
        assert (line, outcome.code, outcome.err) == (line, 0, outcome.err), outcome.err
        assert outcome.out
