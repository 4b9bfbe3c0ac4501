"""Who watches is sent everything once and then what changes; who does not costs nothing."""

import asyncio
from dataclasses import replace

import msgspec

from tests.engine.loop import builders
from tests.engine.loop.builders import NOW_S
from windlass.engine.loop import Decision, decide
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.explain.decision_view import DecisionView
from windlass.observability import status_model
from windlass.observability.status_model import PublishedStatus, StatusChange
from windlass.observability.status_publisher import StatusMessage, StatusPublisher, StatusWatcher


class Loop:
    """Decides on a cluster of one group, again and again, and tells a publisher."""

    def __init__(self) -> None:
        self.now_s, self.memory = NOW_S, LoopMemory()
        self.published = StatusPublisher(lambda: self.now_s)

    def go_round(self, nodes: int = 3, pending: int = 0) -> None:
        _, decision = self.decide(nodes, pending)
        self.published.on_decision(DecisionView(decision), self.now_s)

    def look(self, nodes: int = 3) -> None:
        _, decision = self.decide(nodes, 0)
        self.published.refresh(DecisionView(decision), self.now_s)

    def decide(self, nodes: int, pending: int) -> tuple[Observation, Decision]:
        self.now_s += 10.0
        members = builders.nodes("a", nodes)
        pods = [builders.pending(f"p{number}", 9000) for number in range(pending)]
        observation = builders.observe([builders.group("a", members, min_size=nodes)], members, pods)
        decision = decide(observation, self.memory, Settings(), self.now_s)
        self.memory = decision.memory
        return observation, decision


def read(status: PublishedStatus | None, messages: list[StatusMessage]) -> PublishedStatus:
    """What a reader makes of the messages."""
    for message in messages:
        if message.event == "status":
            status = msgspec.json.decode(message.data, type=PublishedStatus)
        else:
            assert status is not None
            status = status_model.apply_change(status, msgspec.json.decode(message.data, type=StatusChange))
    assert status is not None
    return status


def take(loop: Loop, watcher: StatusWatcher) -> list[str]:
    return [message.event for message in loop.published.take_messages(watcher)]


async def test_who_watches_gets_everything_and_then_what_changes() -> None:
    loop = Loop()
    with loop.published.watch() as watcher:
        loop.go_round()
        first = loop.published.take_messages(watcher)
        loop.go_round(4)
        loop.go_round(4, pending=2)
        more = loop.published.take_messages(watcher)
        assert [message.event for message in (*first, *more)] == ["status", "change", "change"]
        assert read(read(None, first), more) == loop.published.status
        assert take(loop, watcher) == []


async def test_who_comes_back_goes_on_where_it_was() -> None:
    loop = Loop()
    with loop.published.watch():
        loop.go_round()
        with loop.published.watch() as watcher:
            (first,) = loop.published.take_messages(watcher)
        loop.go_round(5)
        with loop.published.watch(first.id) as again:
            missed = loop.published.take_messages(again)
        assert [message.event for message in missed] == ["change"]
        assert read(read(None, [first]), missed) == loop.published.status


async def test_an_id_of_another_process_or_no_id_at_all_starts_from_everything() -> None:
    loop = Loop()
    for last_id in ("0badcafe-0", "nonsense", "-", "-1", f"{loop.published._epoch}-99999", "x-" + "9" * 5000):
        with loop.published.watch(last_id) as watcher:
            loop.go_round()
            assert take(loop, watcher) == ["status"]


async def test_who_reads_too_slowly_gets_everything_instead_of_a_queue() -> None:
    loop = Loop()
    with loop.published.watch() as watcher:
        loop.go_round()
        assert take(loop, watcher) == ["status"]
        for number in range(500):
            loop.go_round(3 + number % 2)
        assert len(loop.published._row) <= 64
        late = loop.published.take_messages(watcher)
        assert [message.event for message in late] == ["status"]
        assert read(None, late) == loop.published.status


async def test_while_nobody_watches_no_status_is_made_but_decisions_are_kept() -> None:
    loop = Loop()
    for _ in range(5):
        loop.go_round(3, pending=1)
    assert loop.published.status is None
    with loop.published.watch() as watcher:
        loop.look()
        status = read(None, loop.published.take_messages(watcher))
    assert [published_decision.said for published_decision in status.decisions] == ["1 pod without a fitting group"]
    assert len(status.samples) == 5
    loop.go_round()
    assert loop.published.status is None, "nobody watches any more"


async def test_a_status_that_was_not_kept_up_to_date_is_not_gone_on_from() -> None:
    loop = Loop()
    with loop.published.watch() as watcher:
        loop.go_round(3)
        (first,) = loop.published.take_messages(watcher)
    loop.go_round(7)
    with loop.published.watch(first.id) as again:
        loop.look(8)
        assert take(loop, again) == ["status"]


async def test_watchers_are_woken_by_loops_of_other_threads() -> None:
    loop = Loop()
    with loop.published.watch() as watcher:
        await watcher.wait()
        waiting = asyncio.ensure_future(watcher.wait())
        await asyncio.to_thread(loop.go_round)
        await waiting
        assert take(loop, watcher) == ["status"]


async def test_what_was_spent_is_added_up() -> None:
    loop = Loop()
    with loop.published.watch():
        for _ in range(7):
            observation, decision = loop.decide(2, 0)
            priced = replace(
                observation, groups=tuple(replace(group, price_per_hour=36.0) for group in observation.groups)
            )
            loop.published.on_decision(DecisionView(replace(decision, evaluated=priced)), loop.now_s)
        status = loop.published.status
        assert status is not None
        assert (status.cluster.cost.per_hour, status.cluster.cost.spent) == (72.0, 1.2)
        assert status.cluster.cost.since_s == NOW_S + 10.0


async def test_the_end_is_told() -> None:
    loop = Loop()
    with loop.published.watch() as watcher:
        loop.go_round()
        loop.published.end()
        assert read(None, loop.published.take_messages(watcher)).cluster.is_over
