"""Reading a recording: the observations again, step by step, as they were, and what was decided on them."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from windlass import errors
from windlass.autoscaler.recording import changes, files, layout, sequences, values
from windlass.engine import facts
from windlass.engine.drain.context import ControllerKey
from windlass.engine.expanders import outside
from windlass.engine.memory import Memory
from windlass.engine.observation import Evictions, Observation
from windlass.engine.plan import Plan
from windlass.engine.settings import Settings


@dataclass(frozen=True, slots=True)
class Recorded:
    """What came of a step."""

    plan: Plan = ()
    next_s: float = 0.0
    """Of a decision, until when it stands; of drains, when to look again."""
    digests: dict[str, bytes] = field(default_factory=dict)
    """Of the story and of what was remembered, by name."""
    ran_out: dict[str, int] = field(default_factory=dict)
    error: str = ""
    """What was raised instead."""


@dataclass(frozen=True, slots=True)
class Step:
    """One decision, or one look at drains. True until the next one is read: the snapshot changes."""

    number: int
    of: str
    """`decide` or `advance`."""
    now_s: float
    seen: Observation
    given: "Given"
    recorded: Recorded


@dataclass(frozen=True, slots=True)
class Given:
    """Which memory a step began with: the last result, unless something else is said."""

    again: bool = False
    """The memory that the last step began with: its result was put aside."""
    memory: dict[str, Any] | None = None
    """What someone put in its place, spelled."""


class Recording:
    """One file."""

    def __init__(self, path: Path) -> None:
        """InvalidInput if it is none."""
        self._path = path
        self._frames = files.read(path)
        head = next(self._frames, None)
        if head is None:
            raise errors.InvalidInput(f"{path}: found no whole observation, expected at least one")
        try:
            self.windlass: str = head["windlass"]
            self.settings = values.read(Settings, head["settings"])
            self.memory = Memory(values.read_durable(head["durable"]), values.read_volatile(head["volatile"]))
            snapshot, specs, kinds = layout.build(head["layout"])
        except Exception as error:  # whoever wrote it could put anything in there
            raise self._unreadable(0, error) from error
        self._maker = changes.Maker(snapshot, specs, kinds)
        self._seen = Observation(snapshot)
        self._digests: dict[str, bytes] = {}

    def __iter__(self) -> Iterator[Step]:
        """Once. InvalidInput where a step cannot be read."""
        for number, frame in enumerate(self._frames, 1):
            try:
                step = self._read(number, frame)
            except Exception as error:
                raise self._unreadable(number, error) from error
            yield step

    def _unreadable(self, number: int, error: Exception) -> errors.InvalidInput:
        return errors.InvalidInput(f"{self._path}: step {number}: cannot be read: {error!r}")

    def _read(self, number: int, frame: values.Plain) -> Step:
        if "kinds" in frame:
            self._maker.learn(frame["specs"], frame["kinds"])
        for change in frame.get("changes", ()):
            self._maker.make(change)
        self._seen.snapshot.show_labels(set(frame.get("visible", ())))
        self._seen = self._look(frame.get("seen", {}))
        names = [name for name in ("story", "drains", "remembered") if name in frame]
        self._digests |= {name: frame[name] for name in names}
        recorded = Recorded(
            values.read_plan(frame.get("plan", ())),
            frame.get("next_s", 0.0),
            dict(self._digests),
            frame.get("ran_out", {}),
            frame.get("error", ""),
        )
        given = Given(frame.get("again", False), frame.get("memory"))
        return Step(number, frame["of"], frame["at_s"], self._seen, given, recorded)

    def _look(self, found: values.Plain) -> Observation:
        """The same object as before where nothing is new: so it was for whoever decided."""
        last = self._seen
        if not found and not last.opinions and not last.refused and not last.failed:
            return last
        new: dict[str, Any] = {
            "opinions": values.read(tuple[outside.Opinion, ...], found.get("opinions", ())),
            "refused": values.read(dict[str, facts.InstanceError], found.get("refused", {})),
            "failed": values.read_failed(found.get("failed", ())),
        }
        for name, members in (
            ("groups", sequences.GROUPS),
            ("daemon_sets", sequences.DAEMON_SETS),
            ("budgets", sequences.BUDGETS),
            ("requests", sequences.REQUESTS),
            ("quotas", sequences.QUOTAS),
            ("spares", sequences.SPARES),
            ("machine_drain_rules", sequences.DRAIN_RULES),
        ):
            if name in found:
                new[name] = members.change(getattr(last, name), found[name])
        if "controllers" in found:
            new["controllers"] = _index(self._change_controllers(found["controllers"]))
        if "evictions" in found:
            new["evictions"] = values.read(Evictions, found["evictions"])
        if "held" in found:
            new["held"] = values.read(tuple[facts.HeldGroup, ...], found["held"])
        if "priorities" in found:
            new["priorities"] = values.read_rules(found["priorities"])
        return replace(last, **new)

    def _change_controllers(self, found: values.Plain) -> tuple[facts.Controller, ...]:
        return sequences.CONTROLLERS.change(tuple((self._seen.controllers or {}).values()), found)


def restore(given: Given, before: Memory, result: Memory) -> Memory:
    """What a step began with, after one that began with `before` and gave `result`."""
    if given.again:
        return before
    if given.memory is None:
        return result
    found = given.memory
    durable = values.read_durable(found["durable"]) if "durable" in found else result.durable
    volatile = values.read_volatile(found["volatile"]) if "volatile" in found else result.volatile
    return Memory(durable, volatile)


def _index(found: tuple[facts.Controller, ...]) -> dict[ControllerKey, facts.Controller]:
    return {(one.kind, one.namespace, one.name): one for one in found}
