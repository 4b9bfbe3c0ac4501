"""Decision recorder: decides, and records inputs, results and digests of the results.

Digests are short names of large values, equal for equal values in any process.
"""

import dataclasses
import enum
import hashlib
import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from windlass import klog, product
from windlass.autoscaler.record_replay import recording_file, snapshot_journal, value_codec
from windlass.engine import time_limits
from windlass.engine.drain_loop import DrainLoopResult, advance
from windlass.engine.loop import UNTIMED, Decision, decide
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import decision_record, facts
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.snapshot import cluster_snapshot

_ATOMS = frozenset({str, int, bool, bytes, type(None)})

_DIGEST_BYTES = 12

_IGNORED_FIELDS: Mapping[type[Any], frozenset[str]] = {
    facts.PodShape: frozenset({"id", "profile_id"}),  # in order of first appearance, not part of the value
    decision_record.DecisionRecord: frozenset({"nodes", "templates"}),  # large, and derived into other fields
}
"""Fields that do not need to be compared."""

_pack = recording_file.pack


def digest(value: object) -> bytes:
    """Return the digest of a value made of dataclasses, mappings, sequences, sets, arrays, strings and numbers."""
    return hashlib.blake2b(_pack(_flatten(value)), digest_size=_DIGEST_BYTES).digest()


def _flatten(value: Any) -> Any:
    kind = type(value)
    if kind in _ATOMS:
        return value
    way = _FLATTENER_CACHE.get(kind)
    if way is None:
        way = _FLATTENER_CACHE[kind] = _make_flattener(kind)
    return way(value)


def _make_flattener(kind: type[Any]) -> Callable[[Any], Any]:
    """Return how values of a type are flattened. Cached by type: a decision record has ten thousands of values."""
    if dataclasses.is_dataclass(kind):
        take = _field_getter(kind)
        return lambda value: [_flatten(item) for item in take(value)]
    if issubclass(kind, enum.Enum):
        values = {entry: _flatten(entry.value) for entry in kind}
        return values.__getitem__
    for known, way in _FLATTENERS:
        if issubclass(kind, known):
            return way
    return lambda value: kind.__name__  # other types have no comparable value


def _flatten_float(value: float) -> int | float:
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _flatten_sequence(value: Sequence[Any]) -> Any:
    return value if _ATOMS.issuperset(map(type, value)) else [_flatten(item) for item in value]


def _flatten_mapping(value: Mapping[Any, Any]) -> Any:
    return [_flatten_sequence(list(value)), _flatten_sequence(list(value.values()))]


_FLATTENER_CACHE: dict[type[Any], Callable[[Any], Any]] = {}


def _field_getter(kind: type[Any]) -> Callable[[Any], tuple[Any, ...]]:
    passed_over = _IGNORED_FIELDS.get(kind, frozenset())
    names = [field.name for field in dataclasses.fields(kind) if field.init and field.name not in passed_over]
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


_FLATTENERS: tuple[tuple[type[Any], Callable[[Any], Any]], ...] = (
    (float, _flatten_float),
    (tuple, _flatten_sequence),
    (list, _flatten_sequence),
    (Mapping, _flatten_mapping),
    (frozenset, lambda value: sorted((_flatten(each) for each in value), key=_pack)),
    (set, lambda value: sorted((_flatten(each) for each in value), key=_pack)),
    (np.ndarray, lambda value: [str(value.dtype), value.shape, value.tobytes()]),
    (np.generic, lambda value: _flatten(value.item())),
    (range, lambda value: [value.start, value.stop, value.step]),
)

DecisionResult = TypeVar("DecisionResult", Decision, DrainLoopResult)

DECIDE, ADVANCE = "decide", "advance"

REMEMBERED_KEY = "remembered"

_MAX_BACKOFF_DOUBLINGS = 10

_STEPS_UNTIL_RESET = 100
"""Steps after which an earlier failure is forgotten."""

_log = logging.getLogger(__name__)


class DecisionRecorder:
    """Writes one recording. Steps are sequential."""

    def __init__(self, snapshot: snapshot_journal.JournaledSnapshot, path: Path, limit_bytes: int) -> None:
        self._snapshot, self._path = snapshot, path
        self._writer: recording_file.RecordingWriter | None = recording_file.RecordingWriter(path, limit_bytes)
        self._specs: snapshot_journal.SpecNumbers = {}
        self._kinds = 0
        self._visible: set[str] = set()
        self._settings: Settings | None = None
        self._seen = Observation(snapshot)
        self._given = self._result = LoopMemory()
        self._digested: dict[str, object] = {}
        self._failures = self._pause = self._written = 0
        """Number of failures, decisions to skip before the next file starts, and steps since the last failure."""

    def decide(
        self,
        observation: Observation,
        memory: LoopMemory,
        settings: Settings,
        now_s: float,
        timer: time_limits.Timer = UNTIMED,
    ) -> Decision:
        """Decide like `loop.decide`, and record."""
        self._pause = max(self._pause - 1, 0)
        if self._writer is not None and not self._pause:
            if self._writer.is_full or self._is_outdated(settings):
                memory = self._start_file(memory, settings, now_s)
            elif not self._is_known(memory):
                memory = _drop_cached_decision(memory)
        return self._note(
            DECIDE, observation, memory, now_s, lambda: decide(observation, memory, settings, now_s, timer)
        )

    def advance(
        self, observation: Observation, memory: LoopMemory, settings: Settings, now_s: float
    ) -> DrainLoopResult:
        """Advance drains like `drain_loop.advance`, and record."""
        if self._writer is not None and not self._pause and self._is_outdated(settings):
            memory = self._start_file(memory, settings, now_s)
        return self._note(ADVANCE, observation, memory, now_s, lambda: advance(observation, memory, settings, now_s))

    def close(self) -> None:
        """Stop recording."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._snapshot.change_log.close()

    # Start of a file

    def _is_outdated(self, settings: Settings) -> bool:
        """Whether the beginning of the file no longer applies."""
        return settings is not self._settings or self._snapshot.is_renumbered

    def _start_file(self, memory: LoopMemory, settings: Settings, now_s: float) -> LoopMemory:
        """Start a file, and return the memory to decide with."""
        memory = _drop_cached_decision(memory)
        self._guard(self._write_beginning, memory, settings, now_s)
        self._settings = settings
        return memory

    def _write_beginning(self, memory: LoopMemory, settings: Settings, now_s: float) -> None:
        assert self._writer is not None
        self._specs, self._seen, self._digested = {}, Observation(self._snapshot), {}
        self._snapshot.change_log.take()
        self._snapshot.is_renumbered = False
        self._given = self._result = memory
        self._writer.begin(_encode_beginning(self._snapshot, self._specs, memory, settings, now_s))
        self._kinds = len(self._snapshot.pods.template_keys)
        self._visible = set(self._snapshot.shapes.visible)

    # Steps

    def _note(
        self, what: str, observation: Observation, memory: LoopMemory, now_s: float, take: Callable[[], DecisionResult]
    ) -> DecisionResult:
        shown = self._snapshot.shapes.visible - self._visible
        try:
            done = take()
        except Exception as error:
            self._guard(self._write_step, what, observation, memory, now_s, shown, None, format_error(error))
            raise
        self._guard(self._write_step, what, observation, memory, now_s, shown, done)
        return done

    def _write_step(
        self,
        what: str,
        observation: Observation,
        memory: LoopMemory,
        now_s: float,
        shown: set[str],
        done: Decision | DrainLoopResult | None,
        error: str = "",
    ) -> None:
        assert self._writer is not None
        step: dict[str, Any] = {
            "of": what,
            "at_s": now_s,
            **self._find_changes(),
            **_encode_observation(self._seen, observation),
        }
        step |= self._find_memory(memory)
        if shown:
            step["visible"] = sorted(shown)
        if done is None:
            step["error"] = error
        else:
            step |= self._encode_result(done)
        self._writer.append(step)
        self._given, self._result = memory, memory if done is None else done.memory
        self._seen = observation
        if len(self._visible) != len(self._snapshot.shapes.visible):
            self._visible = set(self._snapshot.shapes.visible)

    def _find_changes(self) -> value_codec.Plain:
        noted = self._snapshot.change_log.take()
        if not noted:
            return {}
        specs, first = self._specs, len(self._specs)
        kinds = self._snapshot.pods.template_keys.values[self._kinds :]
        spelled = [value_codec.encode_pod_template(kind, specs.setdefault(kind.spec, len(specs))) for kind in kinds]
        self._kinds += len(kinds)
        new: list[facts.PodSpec] = list(specs)[first:] if len(specs) > first else []
        encoded = {"changes": [snapshot_journal.encode_change(change) for change in noted]}
        return encoded | (
            {"kinds": spelled, "specs": [value_codec.encode_value(spec) for spec in new]} if kinds else {}
        )

    def _is_known(self, memory: LoopMemory) -> bool:
        """Whether a reader of the file can derive the volatile memory."""
        return memory is self._given or memory.volatile is self._result.volatile

    def _find_memory(self, memory: LoopMemory) -> value_codec.Plain:
        """Encode the input memory as the difference from the last result."""
        if memory is self._result:
            return {}
        if memory is self._given:
            return {"again": True}
        changed_parts: dict[str, Any] = {}
        if memory.durable is not self._result.durable:
            changed_parts["durable"] = value_codec.encode_durable(memory.durable)
        if memory.volatile is not self._result.volatile:
            changed_parts["volatile"] = value_codec.encode_volatile(memory.volatile)
        return {"memory": changed_parts}

    def _encode_result(self, done: Decision | DrainLoopResult) -> value_codec.Plain:
        told: dict[str, Any] = {"next_s": done.quiet_until_s if isinstance(done, Decision) else done.next_s}
        if done.plan:
            told["plan"] = value_codec.encode_plan(done.plan)
        if isinstance(done, Decision) and done.ran_out:
            told["ran_out"] = dict(done.ran_out)
        for name, value in ((story_digest_key(done), done.story), (REMEMBERED_KEY, done.memory.durable)):
            if name not in self._digested or self._digested[name] is not value:
                self._digested[name] = value
                told[name] = digest(value)
        return told

    def _guard(self, write: Callable[..., None], *arguments: object) -> None:
        """Catch errors of recording, so that they cannot fail a decision."""
        if self._writer is None or self._pause:
            return
        try:
            write(*arguments)
        except Exception as error:
            self._writer.close()
            self._snapshot.change_log.close()
            self._failures += 1
            self._pause = 2 ** min(self._failures - 1, _MAX_BACKOFF_DOUBLINGS)
            self._written = 0
            message = klog.describe_error(error)
            _log.warning(
                "recording interrupted: file=%s retry_after_decisions=%d error=%s", self._path, self._pause, message
            )
            if not isinstance(error, OSError):
                klog.report_error(klog.ErrorPlace.RECORDER, str(self._path), str(self._failures), error)
        else:
            self._written += 1
            if self._written > _STEPS_UNTIL_RESET:
                self._failures = 0


def format_error(error: Exception) -> str:
    """Format an exception, by its name alone if its message cannot be formatted: a number may be too long to print."""
    try:
        return repr(error)
    except Exception:
        return type(error).__name__


def story_digest_key(done: Decision | DrainLoopResult) -> str:
    """Return the key of a story's digest. Each kind of step has one, so that an unchanged digest is not written
    again.
    """
    return "story" if isinstance(done, Decision) else "drains"


def _drop_cached_decision(memory: LoopMemory) -> LoopMemory:
    """Drop the cached decision and the evaluation failures of a memory: both are derived again."""
    if memory.volatile.standing is None and not memory.volatile.faults:
        return memory
    return replace(memory, volatile=replace(memory.volatile, standing=None, faults=()))


def _encode_beginning(
    snapshot: cluster_snapshot.Snapshot,
    specs: snapshot_journal.SpecNumbers,
    memory: LoopMemory,
    settings: Settings,
    now_s: float,
) -> value_codec.Plain:
    return {
        "windlass": product.version(),
        "at_s": now_s,
        "settings": value_codec.encode_value(settings),
        "durable": value_codec.encode_durable(memory.durable),
        "volatile": value_codec.encode_volatile(memory.volatile),
        "layout": snapshot_journal.encode_snapshot(snapshot, specs),
    }


def _encode_observation(last: Observation, observation: Observation) -> value_codec.Plain:
    """Encode changes of the observation that are not in the snapshot."""
    encoded = {
        "groups": value_codec.GROUP_CODEC.find_changes(last.groups, observation.groups),
        "daemon_sets": value_codec.DAEMON_SET_CODEC.find_changes(last.daemon_sets, observation.daemon_sets),
        "budgets": value_codec.BUDGET_CODEC.find_changes(last.budgets, observation.budgets),
        "requests": value_codec.REQUEST_CODEC.find_changes(last.requests, observation.requests),
        "spares": value_codec.BUFFER_POD_CODEC.find_changes(last.spares, observation.spares),
        "machine_drain_rules": value_codec.DRAIN_RULE_CODEC.find_changes(
            last.machine_drain_rules, observation.machine_drain_rules
        ),
        "quotas": value_codec.QUOTA_CODEC.find_changes(last.quotas, observation.quotas),
    }
    if observation.controllers is not last.controllers and observation.controllers != last.controllers:
        known = tuple((last.controllers or {}).values())
        new = None if observation.controllers is None else tuple(observation.controllers.values())
        encoded["controllers"] = value_codec.CONTROLLER_CODEC.find_changes(known, new or ()) or []
    if observation.evictions != last.evictions:
        encoded["evictions"] = value_codec.encode_value(observation.evictions)
    if observation.held != last.held:
        encoded["held"] = value_codec.encode_value(observation.held)
    if observation.priorities != last.priorities:
        encoded["priorities"] = value_codec.encode_rules(observation.priorities)
    if observation.opinions:
        encoded["opinions"] = value_codec.encode_value(observation.opinions)
    if observation.refused:
        encoded["refused"] = value_codec.encode_value(observation.refused)
    if observation.failed:
        encoded["failed"] = value_codec.encode_failed(observation.failed)
    changed = {name: item for name, item in encoded.items() if item is not None}
    return {"seen": changed} if changed else {}


def record_moment(path: Path, observation: Observation, memory: LoopMemory, settings: Settings, now_s: float) -> None:
    """Write a recording of one observation. No decision was made on it, so a replay shows differences."""
    writer = recording_file.RecordingWriter(path, 0)
    writer.begin(_encode_beginning(observation.snapshot, {}, memory, settings, now_s))
    try:
        seen = _encode_observation(Observation(observation.snapshot), observation)
        writer.append({"of": DECIDE, "at_s": now_s, **seen})
    finally:
        writer.close()
