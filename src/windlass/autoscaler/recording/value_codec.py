"""Value codec: the engine's values as msgpack-compatible plain values, and back.

Sequences are written as changes against the previous one: unchanged runs, and members that changed or were added.
"""

import dataclasses
import enum
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from windlass.engine import loop_memory
from windlass.engine.expanders import priority
from windlass.engine.model import durable_memory, dynamic_resources, facts, node_groups, plan
from windlass.engine.model.provisioning import BufferPods, ProvisioningRequest
from windlass.engine.model.scale_up_status import GroupTemplate, Quota
from windlass.engine.placement import hinting
from windlass.engine.snapshot import pod_table
from windlass.engine.snapshot.snapshot import Snapshot
from windlass.engine.snapshot.volume_usage import StorageFact
from windlass.regexp import matcher

T = TypeVar("T")

Plain = Any
"""None, numbers, texts, lists, and dicts of them."""

_INSTRUCTION_TYPES = {kind.__name__: kind for kind in plan.Instruction.__args__}

_STORED_TYPES = {kind.__name__: kind for kind in (*StorageFact.__args__, *dynamic_resources.DeviceFact.__args__)}

_ATOMS = frozenset({str, int, float, bool, type(None)})


def encode_value(value: Any) -> Plain:
    """Any value made of dataclasses, mappings, tuples, sets, enums, texts and numbers."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if isinstance(value, tuple | list):
        return [encode_value(each) for each in value]
    if dataclasses.is_dataclass(kind):
        found = ((name, getattr(value, name), default) for name, default in _fields(kind))
        return {name: encode_value(each) for name, each, default in found if not default(each)}
    if isinstance(value, Mapping):
        return {key: encode_value(each) for key, each in value.items()}
    if isinstance(value, frozenset):
        return sorted(encode_value(each) for each in value)
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


def decode_value(kind: type[T], plain: Plain) -> T:
    """The value of that type that was spelled. `msgspec.ValidationError` if there is none."""
    return msgspec.convert(plain, kind)


# ── Of several types ─────────────────────────────────────────────────────────────────────────────────────────────


def encode_plan(ordered: plan.Plan) -> Plain:
    return [[type(one).__name__, encode_value(one)] for one in ordered]


def decode_plan(plain: Plain) -> plan.Plan:
    return tuple(decode_value(_INSTRUCTION_TYPES[name], one) for name, one in plain)


def encode_failed(failed: Mapping[plan.Instruction, str]) -> Plain:
    return [[type(one).__name__, encode_value(one), said] for one, said in failed.items()]


def decode_failed(plain: Plain) -> dict[plan.Instruction, str]:
    return {decode_value(_INSTRUCTION_TYPES[name], one): said for name, one, said in plain}


def encode_storage_fact(fact: StorageFact | dynamic_resources.DeviceFact) -> Plain:
    return [type(fact).__name__, encode_value(fact)]


def put_storage_fact(snapshot: Snapshot, plain: Plain) -> None:
    """Something about storage or devices came, or changed."""
    fact = _decode_storage_fact(plain)
    if isinstance(fact, dynamic_resources.DeviceFact):
        snapshot.devices.inventory.put(fact)
    else:
        snapshot.storage.put(fact)


def remove_storage_fact(snapshot: Snapshot, plain: Plain) -> None:
    """Something about storage or devices went."""
    fact = _decode_storage_fact(plain)
    if isinstance(fact, dynamic_resources.DeviceFact):
        snapshot.devices.inventory.remove(fact)
    else:
        snapshot.storage.remove(fact)


def _decode_storage_fact(plain: Plain) -> StorageFact | dynamic_resources.DeviceFact:
    name, fact = plain
    found: StorageFact | dynamic_resources.DeviceFact = decode_value(_STORED_TYPES[name], fact)
    return found


def encode_rules(rules: tuple[priority.PriorityRule, ...]) -> Plain:
    return [[rule.priority, rule.pattern.expression] for rule in rules]


def decode_rules(plain: Plain) -> tuple[priority.PriorityRule, ...]:
    return tuple(_decode_rule(*rule) for rule in plain)


def _decode_rule(rank: int, expression: str, flags: int | None = None) -> priority.PriorityRule:
    """A rule. Older files give flags, and the expression as it was translated to Python's syntax."""
    if flags is not None:
        for python, go in _PYTHON_SYNTAX:
            expression = expression.replace(python, go)
        expression = f"(?i:{expression})" if flags & re.IGNORECASE else expression
    return priority.PriorityRule(rank, matcher.compile(expression))


_PYTHON_SYNTAX = ((r"(?:\Z)", r"\z"), (r"(?!\b)", r"\B"), (r"\U0010ffff", r"\x{10FFFF}"))
"""What older versions wrote into files and Go does not know."""

# ── Pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def encode_pod_template(kind: pod_table.PodTemplateKey, spec: int) -> Plain:
    """What pods of one template share, with the number of its spec."""
    return {**encode_value(dataclasses.replace(kind, spec=_NO_SPEC)), "spec": spec}


def decode_pod_template(plain: Plain, specs: list[facts.PodSpec]) -> pod_table.PodTemplateKey:
    return dataclasses.replace(decode_value(pod_table.PodTemplateKey, {**plain, "spec": {}}), spec=specs[plain["spec"]])


def make_pod(
    kind: pod_table.PodTemplateKey,
    own: "OwnPodFields",
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


OwnPodFields = tuple[str, str, tuple[str, ...], float]
"""What each pod has for itself: its name, its uid, its labels (key, value, key, value …), and when it was created."""

_NO_SPEC = facts.PodSpec()

_EMPTY_SEARCH = hinting.HintingState()

# ── Memory ───────────────────────────────────────────────────────────────────────────────────────────────────────


def encode_volatile(kept: loop_memory.VolatileMemory) -> Plain:
    """All of it but a decision that stands: that is not recorded, so it must be dropped where this is read."""
    return {
        "templates": [[group, encode_value(template)] for group, template in kept.templates.items()],
        "searches": [[one.pointer, one.hints.current, one.hints.old] for one in _searches(kept)],
        "learned_s": dict(kept.learned_s),
        "began_s": kept.began_s,
    }


def decode_volatile(plain: Plain) -> loop_memory.VolatileMemory:
    searches = [
        hinting.HintingState(pointer, hinting.PlacementHints(now, old)) for pointer, now, old in plain["searches"]
    ]
    templates = {group: decode_value(GroupTemplate, template) for group, template in plain["templates"]}
    waiting, removal, booking = (*searches, hinting.HintingState())[:3]
    learned_s, began_s = plain.get("learned_s", {}), plain.get("began_s")
    return loop_memory.VolatileMemory(templates, waiting, removal, booking, learned_s=learned_s, began_s=began_s)


def _searches(kept: loop_memory.VolatileMemory) -> tuple[hinting.HintingState, ...]:
    """In the order of their fields. Where none is booked, as in older files, there are two."""
    return (kept.pending, kept.removal, kept.booking) if kept.booking != _EMPTY_SEARCH else (kept.pending, kept.removal)


encode_durable = durable_memory.to_plain

decode_durable = durable_memory.from_plain


@dataclass(frozen=True, slots=True)
class SequenceCodec(Generic[T]):
    """What sequences of one kind are made of."""

    key: Callable[[T], Hashable]
    spell: Callable[[T, T | None], Plain]
    """A member, given the old one of its key."""
    read: Callable[[Plain, T | None], T]

    def find_changes(self, old: Sequence[T], new: Sequence[T]) -> Plain | None:
        """None if nothing changed."""
        if old is new or old == new:
            return None
        return list(self._find_runs(old, new))

    def _find_runs(self, old: Sequence[T], new: Sequence[T]) -> Iterator[Plain]:
        places = {self.key(one): place for place, one in enumerate(old)}
        run: list[int] | None = None
        for one in new:
            place = places.get(self.key(one))
            if place is not None and (one is old[place] or one == old[place]):
                if run is not None and run[0] + run[1] == place:
                    run[1] += 1
                    continue
                if run is not None:
                    yield run
                run = [place, 1]
                continue
            if run is not None:
                yield run
                run = None
            before = None if place is None else old[place]
            yield {"": self.spell(one, before), "of": place} if before is not None else {"": self.spell(one, None)}
        if run is not None:
            yield run

    def apply_changes(self, old: Sequence[T], changes: Plain) -> tuple[T, ...]:
        """The new sequence."""
        new: list[T] = []
        for one in changes:
            if isinstance(one, list):
                new += old[one[0] : one[0] + one[1]]
            else:
                new.append(self.read(one[""], old[one["of"]] if "of" in one else None))
        return tuple(new)


def whole_member_codec(kind: type[T], key: Callable[[T], Hashable]) -> SequenceCodec[T]:
    """Members that are spelled whole."""
    return SequenceCodec(key, lambda one, before: encode_value(one), lambda plain, before: decode_value(kind, plain))


INSTANCE_CODEC: SequenceCodec[node_groups.Instance] = whole_member_codec(
    node_groups.Instance, lambda one: one.provider_id
)

DAEMON_SET_CODEC: SequenceCodec[node_groups.DaemonSet] = whole_member_codec(
    node_groups.DaemonSet, lambda one: (one.namespace, one.name)
)

BUDGET_CODEC: SequenceCodec[facts.PodDisruptionBudget] = whole_member_codec(
    facts.PodDisruptionBudget, lambda one: (one.namespace, one.name)
)

CONTROLLER_CODEC: SequenceCodec[facts.Controller] = whole_member_codec(
    facts.Controller, lambda one: (one.kind, one.namespace, one.name)
)

DRAIN_RULE_CODEC: SequenceCodec[node_groups.MachineDrainRule] = whole_member_codec(
    node_groups.MachineDrainRule, lambda one: one.key
)

REQUEST_CODEC: SequenceCodec[ProvisioningRequest] = whole_member_codec(ProvisioningRequest, lambda one: one.key)

QUOTA_CODEC: SequenceCodec[Quota] = whole_member_codec(Quota, lambda one: one.id)

BUFFER_POD_CODEC: SequenceCodec[BufferPods] = whole_member_codec(BufferPods, lambda one: one.like.owner)


def _encode_group(group: node_groups.NodeGroup, before: node_groups.NodeGroup | None) -> Plain:
    """Instances are many and change one by one; of all else, what is not as it was."""
    new = encode_value(group)
    new.pop("instances", None)
    if before is None:
        return {"all": new, "instances": INSTANCE_CODEC.find_changes((), group.instances) or []}
    old = encode_value(before)
    old.pop("instances", None)
    spelled: dict[str, Any] = {}
    if new != old:
        spelled["all"] = new
    changed = INSTANCE_CODEC.find_changes(before.instances, group.instances)
    if changed is not None:
        spelled["instances"] = changed
    return spelled


def _decode_group(plain: Plain, before: node_groups.NodeGroup | None) -> node_groups.NodeGroup:
    known = () if before is None else before.instances
    instances = INSTANCE_CODEC.apply_changes(known, plain["instances"]) if "instances" in plain else known
    group = decode_value(node_groups.NodeGroup, plain["all"]) if "all" in plain else before
    assert group is not None
    return replace(group, instances=instances)


GROUP_CODEC: SequenceCodec[node_groups.NodeGroup] = SequenceCodec(lambda one: one.id, _encode_group, _decode_group)
