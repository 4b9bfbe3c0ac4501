"""Value codec: the engine's values as msgpack-compatible plain values, and back.

Sequences are written as differences from the previous one: unchanged runs, and members that changed or were added.
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
from windlass.engine.snapshot.cluster_snapshot import Snapshot
from windlass.engine.snapshot.volume_usage import StorageFact
from windlass.regexp import matcher

T = TypeVar("T")

Plain = Any
"""None, numbers, strings, lists, and dicts of them."""

_INSTRUCTION_TYPES = {kind.__name__: kind for kind in plan.Instruction.__args__}

_STORED_TYPES = {kind.__name__: kind for kind in (*StorageFact.__args__, *dynamic_resources.DeviceFact.__args__)}

_ATOMS = frozenset({str, int, float, bool, type(None)})


def encode_value(value: Any) -> Plain:
    """Encode a value made of dataclasses, mappings, tuples, sets, enums, strings and numbers."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if isinstance(value, tuple | list):
        return [encode_value(item) for item in value]
    if dataclasses.is_dataclass(kind):
        named_fields = ((name, getattr(value, name), default) for name, default in _fields(kind))
        return {name: encode_value(entry) for name, entry, default in named_fields if not default(entry)}
    if isinstance(value, Mapping):
        return {key: encode_value(item) for key, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(encode_value(item) for item in value)
    if isinstance(value, enum.Enum):
        return value.value
    raise TypeError(f"{kind.__name__} cannot be recorded")


@cache
def _fields(kind: type[Any]) -> tuple[tuple[str, Callable[[object], bool]], ...]:
    """Return (name, default) of each field, without derived fields."""
    return tuple((field.name, _default(field)) for field in dataclasses.fields(kind) if field.init)


def _default(field: "dataclasses.Field[Any]") -> Callable[[object], bool]:
    if field.default is not dataclasses.MISSING:
        return lambda value: bool(value == field.default)
    make = field.default_factory
    if make is not dataclasses.MISSING:
        return lambda value: bool(value == make())
    return lambda value: False


def decode_value(kind: type[T], plain: Plain) -> T:
    """Decode a value of a type. `msgspec.ValidationError` if it is invalid."""
    return msgspec.convert(plain, kind)


# ── Unions ───────────────────────────────────────────────────────────────────────────────────────────────────────


def encode_plan(ordered: plan.Plan) -> Plain:
    return [[type(instruction).__name__, encode_value(instruction)] for instruction in ordered]


def decode_plan(plain: Plain) -> plan.Plan:
    return tuple(decode_value(_INSTRUCTION_TYPES[name], item) for name, item in plain)


def encode_failed(failed: Mapping[plan.Instruction, str]) -> Plain:
    return [[type(instruction).__name__, encode_value(instruction), said] for instruction, said in failed.items()]


def decode_failed(plain: Plain) -> dict[plan.Instruction, str]:
    return {decode_value(_INSTRUCTION_TYPES[name], item): said for name, item, said in plain}


def encode_storage_fact(fact: StorageFact | dynamic_resources.DeviceFact) -> Plain:
    return [type(fact).__name__, encode_value(fact)]


def put_storage_fact(snapshot: Snapshot, plain: Plain) -> None:
    """Add or change a storage or DRA fact."""
    fact = _decode_storage_fact(plain)
    if isinstance(fact, dynamic_resources.DeviceFact):
        snapshot.devices.inventory.put(fact)
    else:
        snapshot.storage.put(fact)


def remove_storage_fact(snapshot: Snapshot, plain: Plain) -> None:
    """Remove a storage or DRA fact."""
    fact = _decode_storage_fact(plain)
    if isinstance(fact, dynamic_resources.DeviceFact):
        snapshot.devices.inventory.remove(fact)
    else:
        snapshot.storage.remove(fact)


def _decode_storage_fact(plain: Plain) -> StorageFact | dynamic_resources.DeviceFact:
    name, fact = plain
    stored: StorageFact | dynamic_resources.DeviceFact = decode_value(_STORED_TYPES[name], fact)
    return stored


def encode_rules(rules: tuple[priority.PriorityRule, ...]) -> Plain:
    return [[rule.priority, rule.pattern.expression] for rule in rules]


def decode_rules(plain: Plain) -> tuple[priority.PriorityRule, ...]:
    return tuple(_decode_rule(*rule) for rule in plain)


def _decode_rule(rank: int, expression: str, flags: int | None = None) -> priority.PriorityRule:
    """Decode a rule. Older files contain flags, and the expression in Python's syntax."""
    if flags is not None:
        for python, go in _PYTHON_SYNTAX:
            expression = expression.replace(python, go)
        expression = f"(?i:{expression})" if flags & re.IGNORECASE else expression
    return priority.PriorityRule(rank, matcher.compile(expression))


_PYTHON_SYNTAX = ((r"(?:\Z)", r"\z"), (r"(?!\b)", r"\B"), (r"\U0010ffff", r"\x{10FFFF}"))
"""Python regexp syntax of older files that Go does not have."""

# ── Pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def encode_pod_template(kind: pod_table.PodTemplateKey, spec: int) -> Plain:
    """Encode the shared fields of a pod template, with the number of its spec."""
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
    """Make a pod of a template."""
    name, uid, labels, created_s = own
    return facts.Pod(
        kind.namespace, name, uid, dict(zip(labels[::2], labels[1::2], strict=True)), dict(kind.annotations),
        kind.owner, kind.spec, kind.digest, node_name, kind.nominated_node, kind.scheduler, kind.phase,
        kind.restart_policy, created_s, deleted_s, kind.grace_s, unschedulable_since_s, kind.is_gated,
        kind.scale_up_delay_s, kind.unreadable, drain_behavior=kind.drain_behavior,
    )  # fmt: skip


OwnPodFields = tuple[str, str, tuple[str, ...], float]
"""Pod-specific fields: name, uid, labels (key, value, key, value …), and creation time."""

_NO_SPEC = facts.PodSpec()

_EMPTY_SEARCH = hinting.HintingState()

# ── Memory ───────────────────────────────────────────────────────────────────────────────────────────────────────


def encode_volatile(kept: loop_memory.VolatileMemory) -> Plain:
    """Encode the volatile memory except the cached decision, which readers of the file drop as well."""
    return {
        "templates": [[group, encode_value(template)] for group, template in kept.templates.items()],
        "searches": [
            [hinting_state.pointer, hinting_state.hints.current, hinting_state.hints.old]
            for hinting_state in _searches(kept)
        ],
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
    """Return searches in the order of their fields; two without bookings, as in older files."""
    return (kept.pending, kept.removal, kept.booking) if kept.booking != _EMPTY_SEARCH else (kept.pending, kept.removal)


encode_durable = durable_memory.to_plain

decode_durable = durable_memory.from_plain


@dataclass(frozen=True, slots=True)
class SequenceCodec(Generic[T]):
    """Codec of the members of a sequence."""

    key: Callable[[T], Hashable]
    encode: Callable[[T, T | None], Plain]
    """Encode a member, given the old member of its key."""
    read: Callable[[Plain, T | None], T]

    def find_changes(self, old: Sequence[T], new: Sequence[T]) -> Plain | None:
        """Return the changes; None if there are none."""
        if old is new or old == new:
            return None
        return list(self._find_runs(old, new))

    def _find_runs(self, old: Sequence[T], new: Sequence[T]) -> Iterator[Plain]:
        places = {self.key(item): place for place, item in enumerate(old)}
        run: list[int] | None = None
        for entry in new:
            place = places.get(self.key(entry))
            if place is not None and (entry is old[place] or entry == old[place]):
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
            yield (
                {"": self.encode(entry, before), "of": place} if before is not None else {"": self.encode(entry, None)}
            )
        if run is not None:
            yield run

    def apply_changes(self, old: Sequence[T], changes: Plain) -> tuple[T, ...]:
        """Return the new sequence."""
        new: list[T] = []
        for item in changes:
            if isinstance(item, list):
                new += old[item[0] : item[0] + item[1]]
            else:
                new.append(self.read(item[""], old[item["of"]] if "of" in item else None))
        return tuple(new)


def whole_member_codec(kind: type[T], key: Callable[[T], Hashable]) -> SequenceCodec[T]:
    """Return a codec that encodes members as a whole."""
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
    """Encode a group: instances as differences, because they are many and change one by one; other fields if
    changed.
    """
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
