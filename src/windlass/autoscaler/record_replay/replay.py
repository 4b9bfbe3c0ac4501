"""Replay: reads a recording, decides again with the same or different settings, and compares the results.

`replay_steps` repeats the recorded decisions, `compare_decisions` decides with other settings (what-if), and
`read_published_status` rebuilds the status at a time of the recording.
"""

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from windlass import errors
from windlass.autoscaler import shadow_comparison, shadow_mode
from windlass.autoscaler.record_replay import recorder, recording_file, snapshot_journal, value_codec
from windlass.engine import time_limits
from windlass.engine.drain_loop import DrainLoopResult, advance
from windlass.engine.loop import Decision, decide
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import facts, node_groups, plan, scale_up_status
from windlass.engine.model.drainability import ControllerKey
from windlass.engine.model.plan import Plan
from windlass.engine.model.settings import Settings
from windlass.engine.observation import EvictionState, Observation
from windlass.explain import cluster, explain_context
from windlass.explain.decision_view import DecisionView
from windlass.kube import time_formats
from windlass.observability import status_builder
from windlass.observability.status_model import PublishedStatus
from windlass.observability.status_publisher import StatusPublisher


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """Result of a step."""

    plan: Plan = ()
    next_s: float = 0.0
    """Of a decision, until when it is valid; of drains, when to advance again."""
    digests: dict[str, bytes] = field(default_factory=dict)
    """Digests of the story and the memory, by name."""
    ran_out: dict[str, int] = field(default_factory=dict)
    error: str = ""
    """The exception that was raised instead."""


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """One recorded decision or drain step. Valid until the next one is read: the snapshot changes."""

    number: int
    of: str
    """`decide` or `advance`."""
    now_s: float
    seen: Observation
    given: "StartMemory"
    recorded: RecordedResult


@dataclass(frozen=True, slots=True)
class StartMemory:
    """Input memory of a step: the last result, unless a field says otherwise."""

    again: bool = False
    """The input memory of the last step again: its result was discarded."""
    memory: dict[str, Any] | None = None
    """A replaced memory, encoded."""


class Recording:
    """One recording file."""

    def __init__(self, path: Path) -> None:
        """InvalidInput if the file is not a recording."""
        self._path = path
        self._frames = recording_file.read_frames(path)
        head = next(self._frames, None)
        if head is None:
            raise errors.InvalidInput(f"{path}: found no whole observation, expected at least one")
        try:
            self.windlass: str = head["windlass"]
            self.settings = value_codec.decode_value(Settings, head["settings"])
            self.memory = LoopMemory(
                value_codec.decode_durable(head["durable"]), value_codec.decode_volatile(head["volatile"])
            )
            snapshot, specs, kinds = snapshot_journal.decode_snapshot(head["layout"])
        except Exception as error:  # any error: the file is untrusted input
            raise self._unreadable(0, error) from error
        self._maker = snapshot_journal.ChangeApplier(snapshot, specs, kinds)
        self._seen = Observation(snapshot)
        self._digests: dict[str, bytes] = {}

    @property
    def is_cut(self) -> bool:
        """After the iteration: does the file end within a step? It was cut, or is being written."""
        return self._frames.is_cut

    def __iter__(self) -> Iterator[RecordedStep]:
        """Iterate once. InvalidInput where a step cannot be read."""
        for number, frame in enumerate(self._frames, 1):
            try:
                step = self._read(number, frame)
            except Exception as error:
                raise self._unreadable(number, error) from error
            yield step

    def _unreadable(self, number: int, error: Exception) -> errors.InvalidInput:
        return errors.InvalidInput(f"{self._path}: step {number}: cannot be read: {error!r}")

    def _read(self, number: int, frame: value_codec.Plain) -> RecordedStep:
        if "kinds" in frame:
            self._maker.add_specs(frame["specs"], frame["kinds"])
        for change in frame.get("changes", ()):
            self._maker.apply(change)
        self._seen.snapshot.show_labels(set(frame.get("visible", ())))
        self._seen = self._read_observation(frame.get("seen", {}))
        names = [name for name in ("story", "drains", "remembered") if name in frame]
        self._digests |= {name: frame[name] for name in names}
        recorded = RecordedResult(
            value_codec.decode_plan(frame.get("plan", ())),
            frame.get("next_s", 0.0),
            dict(self._digests),
            frame.get("ran_out", {}),
            frame.get("error", ""),
        )
        given = StartMemory(frame.get("again", False), frame.get("memory"))
        return RecordedStep(number, frame["of"], frame["at_s"], self._seen, given, recorded)

    def _read_observation(self, encoded: value_codec.Plain) -> Observation:
        """Read an observation: the same object as before where nothing changed, as in the recorded process."""
        last = self._seen
        if not encoded and not last.opinions and not last.refused and not last.failed:
            return last
        new: dict[str, Any] = {
            "opinions": value_codec.decode_value(
                tuple[scale_up_status.BestOptionsResponse, ...], encoded.get("opinions", ())
            ),
            "refused": value_codec.decode_value(dict[str, node_groups.InstanceError], encoded.get("refused", {})),
            "failed": value_codec.decode_failed(encoded.get("failed", ())),
        }
        for name, members in (
            ("groups", value_codec.GROUP_CODEC),
            ("daemon_sets", value_codec.DAEMON_SET_CODEC),
            ("budgets", value_codec.BUDGET_CODEC),
            ("requests", value_codec.REQUEST_CODEC),
            ("quotas", value_codec.QUOTA_CODEC),
            ("spares", value_codec.BUFFER_POD_CODEC),
            ("machine_drain_rules", value_codec.DRAIN_RULE_CODEC),
        ):
            if name in encoded:
                new[name] = members.apply_changes(getattr(last, name), encoded[name])
        if "controllers" in encoded:
            new["controllers"] = _index_controllers(self._change_controllers(encoded["controllers"]))
        if "evictions" in encoded:
            new["evictions"] = value_codec.decode_value(EvictionState, encoded["evictions"])
        if "held" in encoded:
            new["held"] = value_codec.decode_value(tuple[node_groups.HeldGroup, ...], encoded["held"])
        if "priorities" in encoded:
            new["priorities"] = value_codec.decode_rules(encoded["priorities"])
        return replace(last, **new)

    def _change_controllers(self, encoded: value_codec.Plain) -> tuple[facts.Controller, ...]:
        return value_codec.CONTROLLER_CODEC.apply_changes(tuple((self._seen.controllers or {}).values()), encoded)


def restore_memory(given: StartMemory, before: LoopMemory, result: LoopMemory) -> LoopMemory:
    """Return the input memory of a step, given the previous step's input `before` and its `result`."""
    if given.again:
        return before
    if given.memory is None:
        return result
    memory = given.memory
    durable = value_codec.decode_durable(memory["durable"]) if "durable" in memory else result.durable
    volatile = value_codec.decode_volatile(memory["volatile"]) if "volatile" in memory else result.volatile
    return LoopMemory(durable, volatile)


def _index_controllers(controllers: tuple[facts.Controller, ...]) -> dict[ControllerKey, facts.Controller]:
    return {(controller.kind, controller.namespace, controller.name): controller for controller in controllers}


class ReplayInputs(NamedTuple):
    """Inputs of a decision at one time."""

    seen: Observation
    memory: LoopMemory
    settings: Settings
    now_s: float
    timer: time_limits.Timer
    """A timer that expires where the recorded one did."""


@dataclass(frozen=True, slots=True)
class ReplayedStep:
    """A replayed step. Valid until the next one."""

    step: RecordedStep
    memory: LoopMemory
    """Input memory."""
    done: Decision | DrainLoopResult | None
    """Result; None if the replay raised an error."""
    error: str
    differences: tuple[str, ...]
    """Differences from the recording: `plan`, `memory`, `story`, `until` or `error`."""


def replay_steps(recording: Recording) -> Iterator[ReplayedStep]:
    """Replay every step."""
    before = result = recording.memory
    names: dict[str, tuple[object, bytes]] = {}
    for step in recording:
        memory = restore_memory(step.given, before, result)
        done, error = _decide_again(step, memory, recording.settings)
        yield ReplayedStep(step, memory, done, error, tuple(_compare_results(step.recorded, done, error, names)))
        before, result = memory, memory if done is None else done.memory


def load_inputs_at(path: Path | str, at_s: float) -> ReplayInputs:
    """Return the inputs of the last decision at or before a time. InvalidInput if there is none."""
    number = find_decision_at(Path(path), at_s)
    recording = Recording(Path(path))
    turn = next(turn for turn in replay_steps(recording) if turn.step.number == number)
    timer = time_limits.ReplayedTimer(turn.step.recorded.ran_out)
    return ReplayInputs(turn.step.seen, turn.memory, recording.settings, turn.step.now_s, timer)


def find_start_s(path: Path) -> float:
    """Return the start time of the recording."""
    head = next(recording_file.read_frames(path), None)
    if head is None:
        raise errors.InvalidInput(f"{path}: found no whole observation, expected at least one")
    return float(head["at_s"])


def find_decision_at(path: Path, at_s: float) -> int:
    """Return the number of the last decision at or before a time; infinity: of all. InvalidInput outside."""
    last, first_s, end_s = 0, math.inf, -math.inf
    for number, frame in enumerate(recording_file.read_frames(path)):
        end_s = max(end_s, frame["at_s"])
        if number and frame["of"] == recorder.DECIDE:
            first_s = min(first_s, frame["at_s"])
            last = number if frame["at_s"] <= at_s else last
    if first_s == math.inf:
        raise errors.InvalidInput(f"{path}: found no decision, expected at least one")
    if not last or end_s < at_s < math.inf:
        span = f"its decisions are from {time_formats.format_time(first_s)} to {time_formats.format_time(end_s)}"
        raise errors.InvalidInput(f"{path}: --at: found no decision then; {span}")
    return last


def _decide_again(
    step: RecordedStep, memory: LoopMemory, settings: Settings
) -> tuple[Decision | DrainLoopResult | None, str]:
    try:
        if step.of == recorder.ADVANCE:
            return advance(step.seen, memory, settings, step.now_s), ""
        timer = time_limits.ReplayedTimer(step.recorded.ran_out)
        return decide(step.seen, memory, settings, step.now_s, timer), ""
    except Exception as error:
        return None, recorder.format_error(error)


def _compare_results(
    recorded: RecordedResult,
    done: Decision | DrainLoopResult | None,
    error: str,
    names: dict[str, tuple[object, bytes]],
) -> Iterator[str]:
    if done is None or recorded.error:
        if error != recorded.error:
            yield "error"
        return
    if done.plan != recorded.plan:
        yield "plan"
    for name, value in ((recorder.REMEMBERED_KEY, done.memory.durable), (recorder.story_digest_key(done), done.story)):
        if name not in names or names[name][0] is not value:
            names[name] = value, recorder.digest(value)
        if names[name][1] != recorded.digests.get(name):
            yield "memory" if name == recorder.REMEMBERED_KEY else "story"
    if (done.quiet_until_s if isinstance(done, Decision) else done.next_s) != recorded.next_s:
        yield "until"


@dataclass(frozen=True, slots=True)
class DecisionComparison:
    """One decision with recorded and with alternative settings."""

    turn: ReplayedStep
    wanted: tuple[cluster.PlanStep, ...]
    """Instructions only of the alternative, unless the previous decision had them too."""
    left: tuple[cluster.PlanStep, ...]
    """Instructions only of the recording."""
    is_different: bool
    """Whether the decisions differ, repeated differences included."""


def compare_decisions(recording: Recording, settings: Settings) -> Iterator[DecisionComparison]:
    """Compare every decision in order."""
    chooser = _AlternativeDecider(recording.memory, settings)
    missing: frozenset[Hashable] = frozenset()
    for turn in replay_steps(recording):
        if turn.step.of != recorder.DECIDE or not isinstance(turn.done, Decision):
            continue
        was = explain_context.ExplainContext(
            turn.step.seen, turn.memory, recording.settings, turn.step.now_s, turn.done
        )
        would = chooser.decide(turn.step)
        if turn.done.question is not None:
            continue  # not acted on: it was decided again with the expander's answer
        done, desired = _by_subject(was), _by_subject(would)
        more, less = desired.keys() - done.keys(), done.keys() - desired.keys()
        yield DecisionComparison(
            turn,
            tuple(step for subject, step in desired.items() if subject in more - missing),
            tuple(step for subject, step in done.items() if subject in less),
            bool(more or less),
        )
        missing = frozenset(more)


class _AlternativeDecider:
    """Decides with alternative settings, and updates memory like shadow mode."""

    def __init__(self, memory: LoopMemory, settings: Settings) -> None:
        self._settings = settings
        self._before = self._after = memory
        self._sight: shadow_comparison.ActionBaseline | None = None

    def decide(self, step: RecordedStep) -> explain_context.ExplainContext:
        observation, now_s, settings = step.seen, step.now_s, self._settings
        memory = self._before if step.given.again else self._adopt_memory(step)
        decision = decide(observation, memory, settings, now_s)
        self._before, self._after = memory, shadow_mode.memory_without_plan(memory, decision)
        return explain_context.ExplainContext(decision.evaluated, memory, settings, now_s, decision)

    def _adopt_memory(self, step: RecordedStep) -> LoopMemory:
        observed_actions = (
            shadow_comparison.find_observed_actions(self._sight, step.seen, step.now_s)
            if self._sight is not None
            else ()
        )
        self._sight = shadow_comparison.take_baseline(step.seen)
        return shadow_mode.adopt_actions(self._after, observed_actions, step.seen, self._settings, step.now_s)


def _by_subject(at: explain_context.ExplainContext) -> dict[Hashable, cluster.PlanStep]:
    return dict(zip(map(_subject, at.decision.plan), cluster.explain_plan(at), strict=True))


def _subject(instruction: plan.Instruction) -> Hashable:
    """Return what identifies an instruction, regardless of its time or the pods it moves."""
    match instruction:
        case plan.Resize():
            return "Resize", instruction.group, instruction.to_size
        case plan.ReduceTarget():
            return "ReduceTarget", instruction.group, instruction.by
        case plan.SetTaint() | plan.RemoveTaint():
            return type(instruction).__name__, instruction.node, instruction.key
        case plan.Drain() | plan.DeleteNode():
            return type(instruction).__name__, instruction.node
    return instruction


def read_published_status(path: Path, at_s: float = float("inf")) -> PublishedStatus:
    """Return the published status at a time, by default at the end. InvalidInput before the first decision."""
    now_s, number = 0.0, find_decision_at(path, at_s)
    published = StatusPublisher(lambda: now_s, status_builder.PublisherInfo("recorded", path.name))
    for turn in replay_steps(Recording(path)):
        now_s = turn.step.now_s
        match turn.done:
            case Decision() as decision:
                view = DecisionView(decision)
                published.on_decision(view, now_s)
                if turn.step.number == number:
                    published.refresh(view, now_s)
                    published.end()
                    break
            case DrainLoopResult() as advanced:
                published.on_advance(turn.step.seen, advanced, now_s)
    if published.status is None:
        raise errors.InvalidInput(f"{path}: the decision could not be made again; windlass replay tells why")
    return published.status
