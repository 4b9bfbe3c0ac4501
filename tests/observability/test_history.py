"""The history is bounded in every direction, and says of each decision what it was based on and what followed."""

from dataclasses import replace

import msgspec
import pytest

from tests.engine.loop import builders
from tests.engine.loop.builders import NOW_S
from windlass.engine.loop import decide
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import facts, node_groups
from windlass.engine.model.settings import Settings
from windlass.explain.decision_view import DecisionView
from windlass.observability import decision_details, decision_log, history, status_publisher
from windlass.observability.decision_log import DecisionLog, LogEntry
from windlass.observability.status_model import DecisionDetail, PublishedHistory
from windlass.observability.status_publisher import StatusPublisher

MIB = 2**20


class Loop:
    """Decides on groups of nodes again and again, and publishes nothing to anybody."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.now_s, self.memory, self.settings = NOW_S, LoopMemory(), settings or Settings()
        self.published = StatusPublisher(lambda: self.now_s)

    def go_round(
        self, members: dict[str, list[facts.Node]], pods: list[facts.Pod], target: int | None = None, **errors: str
    ) -> None:
        """`errors`: code of a failed instance by group."""
        self.now_s += 30.0
        groups = [
            builders.group(id, found, target=target, max_size=1000, instances=_failed(errors.get(id)))
            for id, found in members.items()
        ]
        nodes = [node for found in members.values() for node in found]
        decision = decide(builders.observe(groups, nodes, pods), self.memory, self.settings, self.now_s)
        self.memory = decision.memory
        self.published.on_decision(DecisionView(decision), self.now_s)

    def history(self, after_s: float = float("-inf")) -> PublishedHistory:
        return msgspec.json.decode(self.published.encode_history(after_s), type=PublishedHistory)

    def said(self, number: int) -> list[str]:
        report = self.published.find_decision(number)
        assert report is not None
        return [outcome.said for outcome in report.outcomes]


def _failed(code: str | None) -> list[node_groups.Instance]:
    if code is None:
        return []
    return [node_groups.Instance("id://failed", "Creating", node_groups.InstanceError("OutOfResources", code))]


def busy(nodes: list[facts.Node]) -> list[facts.Pod]:
    return [builders.running(f"busy-{node.name}", node.name, 3500) for node in nodes]


def test_a_scale_up_is_followed_until_its_nodes_are_ready() -> None:
    loop, nodes = Loop(), builders.nodes("a", 2)
    loop.go_round({"a": nodes}, [*busy(nodes), builders.pending("p", 3000), builders.pending("q", 3000)])
    assert loop.said(0) == []
    for count in (3, 4):
        more = builders.nodes("a", count)
        loop.go_round({"a": more}, busy(more), target=4)
    assert loop.said(0) == ["a-2 ready", "a-3 ready"]


def test_a_failure_follows_the_scale_up_that_it_belongs_to() -> None:
    loop, nodes = Loop(), builders.nodes("a", 2)
    loop.go_round({"a": nodes}, [*busy(nodes), builders.pending("p", 3000)])
    loop.go_round({"a": nodes}, busy(nodes), a="QuotaExceeded")
    assert [line.partition(": ")[2] for line in loop.said(0)] == ["QuotaExceeded"]
    kinds = [(one.kind, one.reason) for one in loop.history().decisions]
    assert ("trouble", "ScaleUpFailed") in kinds


def test_a_removed_node_is_followed_until_it_is_gone() -> None:
    loop, nodes = Loop(builders.at_once(builders.WINDLASS)), builders.nodes("a", 2)
    loop.go_round({"a": nodes}, busy(nodes[:1]))
    (entry,) = (one for one in loop.history().decisions if one.kind == "down")
    assert (entry.nodes, entry.reason) == (("a-1",), "ScaleDownEmpty")
    loop.memory = replace(loop.memory, durable=replace(loop.memory.durable, drains={}))  # the drain ended
    loop.go_round({"a": nodes[:1]}, busy(nodes[:1]))
    assert loop.said(entry.number) == ["a-1 gone"]


def test_a_detail_has_options_pods_and_refusals() -> None:
    loop, members = Loop(), {id: builders.nodes(id, 1) for id in "ab"}
    pods = [builders.pending("p", 3000), builders.pending("giant", 90_000, namespace="other")]
    loop.go_round(members, [*busy([*members["a"], *members["b"]]), *pods])
    report = loop.published.find_decision(0)
    assert report is not None
    assert report.detail is not None
    assert {option.group for option in report.detail.options} == {"a", "b"}
    assert [option.is_chosen for option in report.detail.options] == [True, False]
    assert all(option.dropped_by for option in report.detail.options[1:])
    assert [(pods.pod, pods.is_helped) for pods in report.detail.pods] == [
        ("default/p", True),
        ("other/giant", False),
    ]
    assert {(refusal.group, refusal.reason) for refusal in report.detail.refusals} == {
        ("a", "Insufficient cpu"),
        ("b", "Insufficient cpu"),
    }
    assert report.decision.namespaces == ("default", "other")


def test_samples_hold_groups_and_the_most_pods_that_were_pending() -> None:
    loop, nodes = Loop(), builders.nodes("a", 2)
    loop.go_round({"a": nodes}, busy(nodes))
    loop.now_s -= 25.0  # a loop 5 s later, between two samples
    loop.go_round({"a": nodes}, [*busy(nodes), builders.pending("p", 90_000, namespace="n")])
    loop.go_round({"a": nodes}, busy(nodes))
    found = loop.history()
    assert found.groups == ("a",)
    assert [sample.pending for sample in found.samples] == [0, 1]
    assert found.samples[-1].groups[:3] == (2.0, 7.0, 8.0)
    assert dict(zip(found.namespaces, found.samples[-1].namespaces, strict=True)) == {"n": 1}


def test_what_is_new_is_told_alone() -> None:
    loop = Loop()
    for count in (1, 2, 3):
        loop.go_round({"a": builders.nodes("a", count)}, [])
    whole = loop.history()
    later = loop.history(whole.samples[1].at_s)
    assert later.samples == whole.samples[2:]


def test_a_cluster_in_which_nothing_happens_takes_one_sample() -> None:
    loop, nodes = Loop(), builders.nodes("a", 2)
    for _ in range(20):
        loop.go_round({"a": nodes}, busy(nodes))
    assert len(loop.history().samples) == 1


def test_the_buffer_keeps_within_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """More groups and namespaces than have values of their own, and more samples than are kept."""
    monkeypatch.setattr(history, "MAX_HISTORY_SAMPLES", 30)
    loop, names = Loop(), [f"group-{number:02}" for number in range(history.MAX_HISTORY_GROUPS + 5)]
    for round in range(40):
        members = {id: builders.nodes(id, 1 + (round + at) % 2) for at, id in enumerate(names)}
        pods = [
            builders.pending(f"p{n}", 90_000, namespace=f"ns-{n}") for n in range(history.MAX_HISTORY_NAMESPACES + 3)
        ]
        loop.go_round(members, pods)
    found = loop.history()
    assert len(found.samples) == 30
    assert len(found.groups) == history.MAX_HISTORY_GROUPS + 1
    assert len(found.namespaces) == history.MAX_HISTORY_NAMESPACES + 1
    last = found.samples[-1]
    assert len(last.groups) == len(found.groups) * history.GROUP_FIGURES
    assert sum(last.groups[:: history.GROUP_FIGURES]) == last.nodes
    assert sum(last.namespaces) == last.pending
    assert len(msgspec.json.encode(last)) * 2880 < 6 * MIB


def test_old_details_are_dropped_before_old_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_log, "MAX_DETAIL_BYTES", 4000)
    log, detail = DecisionLog(lambda: 0.0, 20), DecisionDetail(opinion="x" * 900)
    for number in range(30):
        log._append(LogEntry(0.0, "up", f"decision {number}", "", detail=detail))
    assert [log.find(number) for number in (9, 30)] == [None, None]
    assert len(log.entries) == 20
    kept = [log.detail_of(number) is not None for number in range(log.first, log.count)]
    assert kept == sorted(kept)
    assert 0 < sum(kept) * len(msgspec.json.encode(detail)) <= 4000


def test_the_largest_detail_is_small() -> None:
    loop, names = Loop(), [f"group-with-a-rather-long-name-{number:03}" for number in range(80)]
    members = {id: builders.nodes(id, 1) for id in names}
    pods = [builders.pending(f"p{n}", 3000 + n, namespace=f"ns-{n}") for n in range(60)]
    loop.go_round(members, [*busy([node for found in members.values() for node in found]), *pods])
    report = loop.published.find_decision(0)
    assert report is not None
    assert report.detail is not None
    assert len(report.detail.options) == decision_details.MAX_OPTIONS
    assert report.detail.left_out["options"] == 60
    assert len(report.detail.pods) == decision_details.MAX_POD_SETS
    assert (
        len(msgspec.json.encode(report.detail)) * status_publisher.MAX_HISTORY_DECISIONS
        < 2 * decision_log.MAX_DETAIL_BYTES
    )


def test_no_more_decisions_are_kept_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_publisher, "MAX_HISTORY_DECISIONS", 5)
    loop, nodes = Loop(), builders.nodes("a", 1)
    for number in range(12):
        loop.go_round({"a": nodes}, [*busy(nodes), *(builders.pending(f"p{n}", 90_000) for n in range(number + 1))])
    found = loop.history()
    assert (len(found.decisions), found.count) == (5, 12)
    assert loop.published.find_decision(3) is None
    assert found.decisions[-1].number == 11
