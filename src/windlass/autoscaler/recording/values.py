"""Values of the engine as plain ones that msgpack can spell, and back.

Dataclasses go by the names of their fields, and a field that has its default is left out. So a field that is added with
a default needs no new version of the file. What the wanted type does not tell, one of several, goes with its name.
"""

import dataclasses
import enum
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec

from windlass import regexp
from windlass.engine import facts, memory, memory_codec, plan, pods, searching
from windlass.engine.devices import model
from windlass.engine.expanders import priority
from windlass.engine.scale_up.templates import GroupTemplate
from windlass.engine.snapshot import Snapshot
from windlass.engine.storage import Fact

T = TypeVar("T")
Plain = Any
"""None, numbers, texts, lists, and dicts of them."""

_INSTRUCTIONS = {kind.__name__: kind for kind in plan.Instruction.__args__}
_STORED = {kind.__name__: kind for kind in (*Fact.__args__, *model.Fact.__args__)}
_ATOMS = frozenset({str, int, float, bool, type(None)})


def spell(value: Any) -> Plain:
    """Any value made of dataclasses, mappings, tuples, sets, enums, texts and numbers."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if isinstance(value, tuple | list):
        return [spell(each) for each in value]
    if dataclasses.is_dataclass(kind):
        found = ((name, getattr(value, name), default) for name, default in _fields(kind))
        return {name: spell(each) for name, each, default in found if not default(each)}
    if isinstance(value, Mapping):
        return {key: spell(each) for key, each in value.items()}
    if isinstance(value, frozenset):
        return sorted(spell(each) for each in value)
    if isinstance(value, enum.Enum):
        return value.value
    raise TypeError(f"{kind.__name__} cannot be recorded")


@cache
def _fields(kind: type[Any]) -> tuple[tuple[str, Callable[[object], bool]], ...]:
    """(name, has it its default?) of each field; those that a class derives for itself are left out."""
    return tuple((field.name, _default(field)) for field in dataclasses.fields(kind) if field.init)


def _default(field: "dataclasses.Field[Any]") -> Callable[[object], bool]:
    if field.default is not dataclasses.MISSING:
        return lambda value: bool(value == field.default)
    make = field.default_factory
    if make is not dataclasses.MISSING:
        return lambda value: bool(value == make())
    return lambda value: False


def read(kind: type[T], plain: Plain) -> T:
    """The value of that type that was spelled. `msgspec.ValidationError` if there is none."""
    return msgspec.convert(plain, kind)


# ── Of several types ─────────────────────────────────────────────────────────────────────────────────────────────


def spell_plan(ordered: plan.Plan) -> Plain:
    return [[type(one).__name__, spell(one)] for one in ordered]


def read_plan(plain: Plain) -> plan.Plan:
    return tuple(read(_INSTRUCTIONS[name], one) for name, one in plain)


def spell_failed(failed: Mapping[plan.Instruction, str]) -> Plain:
    return [[type(one).__name__, spell(one), said] for one, said in failed.items()]


def read_failed(plain: Plain) -> dict[plan.Instruction, str]:
    return {read(_INSTRUCTIONS[name], one): said for name, one, said in plain}


def spell_stored(fact: Fact | model.Fact) -> Plain:
    return [type(fact).__name__, spell(fact)]


def put_stored(snapshot: Snapshot, plain: Plain) -> None:
    """Something about storage or devices came, or changed."""
    fact = _read_stored(plain)
    if isinstance(fact, model.Fact):
        snapshot.devices.stock.put(fact)
    else:
        snapshot.storage.put(fact)


def remove_stored(snapshot: Snapshot, plain: Plain) -> None:
    """Something about storage or devices went."""
    fact = _read_stored(plain)
    if isinstance(fact, model.Fact):
        snapshot.devices.stock.remove(fact)
    else:
        snapshot.storage.remove(fact)


def _read_stored(plain: Plain) -> Fact | model.Fact:
    name, fact = plain
    found: Fact | model.Fact = read(_STORED[name], fact)
    return found


def spell_rules(rules: tuple[priority.Rule, ...]) -> Plain:
    return [[rule.priority, rule.pattern.expression] for rule in rules]


def read_rules(plain: Plain) -> tuple[priority.Rule, ...]:
    return tuple(_read_rule(*rule) for rule in plain)


def _read_rule(rank: int, expression: str, flags: int | None = None) -> priority.Rule:
    """A rule. Older files give flags, and the expression as it was translated to Python's syntax."""
    if flags is not None:
        for python, go in _PYTHON_SYNTAX:
            expression = expression.replace(python, go)
        expression = f"(?i:{expression})" if flags & re.IGNORECASE else expression
    return priority.Rule(rank, regexp.compile(expression))


_PYTHON_SYNTAX = ((r"(?:\Z)", r"\z"), (r"(?!\b)", r"\B"), (r"\U0010ffff", r"\x{10FFFF}"))
"""What older versions wrote into files and Go does not know."""


# ── Pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def spell_kind(kind: pods.Kind, spec: int) -> Plain:
    """What pods of one template share, with the number of its spec."""
    return {**spell(dataclasses.replace(kind, spec=_NO_SPEC)), "spec": spec}


def read_kind(plain: Plain, specs: list[facts.PodSpec]) -> pods.Kind:
    return dataclasses.replace(read(pods.Kind, {**plain, "spec": {}}), spec=specs[plain["spec"]])


def make_pod(
    kind: pods.Kind,
    own: "Own",
    node_name: str,
    deleted_s: float | None,
    unschedulable_since_s: float | None,
) -> facts.Pod:
    """A pod of a kind."""
    name, uid, labels, created_s = own
    return facts.Pod(
        kind.namespace, name, uid, dict(zip(labels[::2], labels[1::2], strict=True)), dict(kind.annotations),
        kind.owner, kind.spec, kind.digest, node_name, kind.nominated_node, kind.scheduler, kind.phase,
        kind.restart_policy, created_s, deleted_s, kind.grace_s, unschedulable_since_s, kind.is_gated,
        kind.scale_up_delay_s, kind.unreadable, drain_behavior=kind.drain_behavior,
    )  # fmt: skip


Own = tuple[str, str, tuple[str, ...], float]
"""What each pod has for itself: its name, its uid, its labels (key, value, key, value …), and when it was created."""

_NO_SPEC = facts.PodSpec()
_FRESH = searching.Search()


# ── Memory ───────────────────────────────────────────────────────────────────────────────────────────────────────


def spell_volatile(kept: memory.Volatile) -> Plain:
    """All of it but a decision that stands: that is not recorded, so it must be dropped where this is read."""
    return {
        "templates": [[group, spell(template)] for group, template in kept.templates.items()],
        "searches": [[one.pointer, one.hints.current, one.hints.old] for one in _searches(kept)],
        "learned_s": dict(kept.learned_s),
        "began_s": kept.began_s,
    }


def read_volatile(plain: Plain) -> memory.Volatile:
    searches = [searching.Search(pointer, searching.Hints(now, old)) for pointer, now, old in plain["searches"]]
    templates = {group: read(GroupTemplate, template) for group, template in plain["templates"]}
    waiting, removal, booking = (*searches, searching.Search())[:3]
    learned_s, began_s = plain.get("learned_s", {}), plain.get("began_s")
    return memory.Volatile(templates, waiting, removal, booking, learned_s=learned_s, began_s=began_s)


def _searches(kept: memory.Volatile) -> tuple[searching.Search, ...]:
    """In the order of their fields. Where none is booked, as in older files, there are two."""
    return (kept.pending, kept.removal, kept.booking) if kept.booking != _FRESH else (kept.pending, kept.removal)


spell_durable = memory_codec.to_plain
read_durable = memory_codec.from_plain
