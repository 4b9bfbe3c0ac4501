"""The recorder: decides, and writes down what was decided on and what came of it.

It stands between the live loop and the engine. A file begins with everything: the snapshot with its rows, the memory
and the settings; each step adds what changed since the one before. What could be told from it is not written: memory
is the last step's, unless someone changed it in between.

A decision that stands is not part of a file's beginning, so it is dropped when one begins, live as well: what is
decided then is decided anew. Nothing else is different because of a recording.

Where something cannot be written, the decisions go on, and a new file begins with the next decision; if that fails as
well, after two, four, eight and so on. A recording never ends before its process does.
"""

import importlib.metadata
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from windlass import unexpected
from windlass.autoscaler.recording import changes, digests, files, journal, layout, sequences, values
from windlass.engine import facts, time_limits
from windlass.engine.advance import Advanced, advance
from windlass.engine.decide import UNTIMED, Decision, decide
from windlass.engine.memory import Memory
from windlass.engine.observation import Observation
from windlass.engine.settings import Settings

Done = TypeVar("Done", Decision, Advanced)
DECIDE, ADVANCE = "decide", "advance"
REMEMBERED = "remembered"
_MOST_DOUBLINGS = 10
_WELL_AGAIN = 100
"""Steps after which a failure is forgotten."""
_log = logging.getLogger(__name__)


class Recorder:
    """Keeps one recording. Steps come one after the other, never two at once."""

    def __init__(self, snapshot: journal.Journal, path: Path, limit_bytes: int) -> None:
        self._snapshot, self._path = snapshot, path
        self._writer: files.Writer | None = files.Writer(path, limit_bytes)
        self._specs: changes.Specs = {}
        self._kinds = 0
        self._visible: set[str] = set()
        self._settings: Settings | None = None
        self._seen = Observation(snapshot)
        self._given = self._result = Memory()
        self._digested: dict[str, object] = {}
        self._failures = self._pause = self._written = 0
        """Failures, decisions until the next file begins after one, and steps since then."""

    def decide(
        self,
        seen: Observation,
        memory: Memory,
        settings: Settings,
        now_s: float,
        timer: time_limits.Timer = UNTIMED,
    ) -> Decision:
        """As `engine.decide` does."""
        self._pause = max(self._pause - 1, 0)
        if self._writer is not None and not self._pause:
            if self._writer.is_full or self._is_outdated(settings):
                memory = self._begin(memory, settings, now_s)
            elif not self._is_known(memory):
                memory = _take_down(memory)
        return self._note(DECIDE, seen, memory, now_s, lambda: decide(seen, memory, settings, now_s, timer))

    def advance(self, seen: Observation, memory: Memory, settings: Settings, now_s: float) -> Advanced:
        """As `engine.advance` does."""
        if self._writer is not None and not self._pause and self._is_outdated(settings):
            memory = self._begin(memory, settings, now_s)
        return self._note(ADVANCE, seen, memory, now_s, lambda: advance(seen, memory, settings, now_s))

    def close(self) -> None:
        """Write no more."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._snapshot.notes.close()

    # A file begins

    def _is_outdated(self, settings: Settings) -> bool:
        """Does what the file began with no longer hold?"""
        return settings is not self._settings or self._snapshot.is_renumbered

    def _begin(self, memory: Memory, settings: Settings, now_s: float) -> Memory:
        """What to decide with."""
        memory = _take_down(memory)
        self._guard(self._write_beginning, memory, settings, now_s)
        self._settings = settings
        return memory

    def _write_beginning(self, memory: Memory, settings: Settings, now_s: float) -> None:
        assert self._writer is not None
        self._specs, self._seen, self._digested = {}, Observation(self._snapshot), {}
        self._snapshot.notes.take()
        self._snapshot.is_renumbered = False
        self._given = self._result = memory
        self._writer.begin(
            {
                "windlass": importlib.metadata.version("windlass"),
                "at_s": now_s,
                "settings": values.spell(settings),
                "durable": values.spell_durable(memory.durable),
                "volatile": values.spell_volatile(memory.volatile),
                "layout": layout.spell(self._snapshot, self._specs),
            }
        )
        self._kinds = len(self._snapshot.pods.kinds)
        self._visible = set(self._snapshot.shapes.visible)

    # A step

    def _note(self, what: str, seen: Observation, memory: Memory, now_s: float, take: Callable[[], Done]) -> Done:
        shown = self._snapshot.shapes.visible - self._visible
        try:
            done = take()
        except Exception as error:
            self._guard(self._write_step, what, seen, memory, now_s, shown, None, spell_error(error))
            raise
        self._guard(self._write_step, what, seen, memory, now_s, shown, done)
        return done

    def _write_step(
        self,
        what: str,
        seen: Observation,
        memory: Memory,
        now_s: float,
        shown: set[str],
        done: Decision | Advanced | None,
        error: str = "",
    ) -> None:
        assert self._writer is not None
        step: dict[str, Any] = {"of": what, "at_s": now_s, **self._find_changes(), **self._find_seen(seen)}
        step |= self._find_memory(memory)
        if shown:
            step["visible"] = sorted(shown)
        if done is None:
            step["error"] = error
        else:
            step |= self._tell_result(done)
        self._writer.append(step)
        self._given, self._result = memory, memory if done is None else done.memory
        self._seen = seen
        if len(self._visible) != len(self._snapshot.shapes.visible):
            self._visible = set(self._snapshot.shapes.visible)

    def _find_changes(self) -> values.Plain:
        noted = self._snapshot.notes.take()
        if not noted:
            return {}
        specs, first = self._specs, len(self._specs)
        kinds = self._snapshot.pods.kinds.values[self._kinds :]
        spelled = [values.spell_kind(kind, specs.setdefault(kind.spec, len(specs))) for kind in kinds]
        self._kinds += len(kinds)
        new: list[facts.PodSpec] = list(specs)[first:] if len(specs) > first else []
        found = {"changes": [changes.spell(change) for change in noted]}
        return found | ({"kinds": spelled, "specs": [values.spell(spec) for spec in new]} if kinds else {})

    def _find_seen(self, seen: Observation) -> values.Plain:
        """What is new of all that is not in the snapshot."""
        last = self._seen
        found = {
            "groups": sequences.GROUPS.find_changes(last.groups, seen.groups),
            "daemon_sets": sequences.DAEMON_SETS.find_changes(last.daemon_sets, seen.daemon_sets),
            "budgets": sequences.BUDGETS.find_changes(last.budgets, seen.budgets),
            "requests": sequences.REQUESTS.find_changes(last.requests, seen.requests),
            "spares": sequences.SPARES.find_changes(last.spares, seen.spares),
            "machine_drain_rules": sequences.DRAIN_RULES.find_changes(
                last.machine_drain_rules, seen.machine_drain_rules
            ),
            "quotas": sequences.QUOTAS.find_changes(last.quotas, seen.quotas),
        }
        if seen.controllers is not last.controllers and seen.controllers != last.controllers:
            known = tuple((last.controllers or {}).values())
            new = None if seen.controllers is None else tuple(seen.controllers.values())
            found["controllers"] = sequences.CONTROLLERS.find_changes(known, new or ()) or []
        if seen.evictions != last.evictions:
            found["evictions"] = values.spell(seen.evictions)
        if seen.held != last.held:
            found["held"] = values.spell(seen.held)
        if seen.priorities != last.priorities:
            found["priorities"] = values.spell_rules(seen.priorities)
        if seen.opinions:
            found["opinions"] = values.spell(seen.opinions)
        if seen.refused:
            found["refused"] = values.spell(seen.refused)
        if seen.failed:
            found["failed"] = values.spell_failed(seen.failed)
        changed = {name: each for name, each in found.items() if each is not None}
        return {"seen": changed} if changed else {}

    def _is_known(self, memory: Memory) -> bool:
        """Can whoever reads the file tell what is volatile of it?"""
        return memory is self._given or memory.volatile is self._result.volatile

    def _find_memory(self, memory: Memory) -> values.Plain:
        """What to decide with, as far as it is not what the last step gave."""
        if memory is self._result:
            return {}
        if memory is self._given:
            return {"again": True}
        found: dict[str, Any] = {}
        if memory.durable is not self._result.durable:
            found["durable"] = values.spell_durable(memory.durable)
        if memory.volatile is not self._result.volatile:
            found["volatile"] = values.spell_volatile(memory.volatile)
        return {"memory": found}

    def _tell_result(self, done: Decision | Advanced) -> values.Plain:
        told: dict[str, Any] = {"next_s": done.quiet_until_s if isinstance(done, Decision) else done.next_s}
        if done.plan:
            told["plan"] = values.spell_plan(done.plan)
        if isinstance(done, Decision) and done.ran_out:
            told["ran_out"] = dict(done.ran_out)
        for name, value in ((story_of(done), done.story), (REMEMBERED, done.memory.durable)):
            if name not in self._digested or self._digested[name] is not value:
                self._digested[name] = value
                told[name] = digests.digest(value)
        return told

    def _guard(self, write: Callable[..., None], *arguments: object) -> None:
        """Nobody's decision fails because it cannot be written down."""
        if self._writer is None or self._pause:
            return
        try:
            write(*arguments)
        except Exception as error:
            self._writer.close()
            self._snapshot.notes.close()
            self._failures += 1
            self._pause = 2 ** min(self._failures - 1, _MOST_DOUBLINGS)
            self._written = 0
            said = unexpected.describe(error)
            _log.warning("recording interrupted: file=%s retry_after_decisions=%d: %s", self._path, self._pause, said)
            if not isinstance(error, OSError):
                unexpected.report(unexpected.Place.RECORDER, str(self._path), str(self._failures), error)
        else:
            self._written += 1
            if self._written > _WELL_AGAIN:
                self._failures = 0


def spell_error(error: Exception) -> str:
    """What was raised, by its name alone where the rest cannot be said: a number may be too long to be printed."""
    try:
        return repr(error)
    except Exception:
        return type(error).__name__


def story_of(done: Decision | Advanced) -> str:
    """The name of its digest. Both kinds have one, so that one that stays the same need not be written again."""
    return "story" if isinstance(done, Decision) else "drains"


def _take_down(memory: Memory) -> Memory:
    """Without a decision that stands, and without knowing what could not be evaluated: it is found again."""
    if memory.volatile.standing is None and not memory.volatile.faults:
        return memory
    return replace(memory, volatile=replace(memory.volatile, standing=None, faults=()))
