"""Sequences as what is new against the last one: runs that stay, and members that changed or came.

    old  a b c d          new  a b X d e      →  [[0, 2], {X}, [3, 1], {e}]

A member is told apart by its key. One that changed may be spelled as what changed in it.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from windlass.autoscaler.recording import values
from windlass.engine import facts
from windlass.engine.buffers.injecting import Spare
from windlass.engine.provisioning.request import Request
from windlass.engine.scale_up.quotas import Quota

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Members(Generic[T]):
    """What sequences of one kind are made of."""

    key: Callable[[T], Hashable]
    spell: Callable[[T, T | None], values.Plain]
    """A member, given the old one of its key."""
    read: Callable[[values.Plain, T | None], T]

    def find_changes(self, old: Sequence[T], new: Sequence[T]) -> values.Plain | None:
        """None if nothing changed."""
        if old is new or old == new:
            return None
        return list(self._find_runs(old, new))

    def _find_runs(self, old: Sequence[T], new: Sequence[T]) -> Iterator[values.Plain]:
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

    def change(self, old: Sequence[T], changes: values.Plain) -> tuple[T, ...]:
        """The new sequence."""
        new: list[T] = []
        for one in changes:
            if isinstance(one, list):
                new += old[one[0] : one[0] + one[1]]
            else:
                new.append(self.read(one[""], old[one["of"]] if "of" in one else None))
        return tuple(new)


def plainly(kind: type[T], key: Callable[[T], Hashable]) -> Members[T]:
    """Members that are spelled whole."""
    return Members(key, lambda one, before: values.spell(one), lambda plain, before: values.read(kind, plain))


INSTANCES: Members[facts.Instance] = plainly(facts.Instance, lambda one: one.provider_id)
DAEMON_SETS: Members[facts.DaemonSet] = plainly(facts.DaemonSet, lambda one: (one.namespace, one.name))
BUDGETS: Members[facts.PodDisruptionBudget] = plainly(facts.PodDisruptionBudget, lambda one: (one.namespace, one.name))
CONTROLLERS: Members[facts.Controller] = plainly(facts.Controller, lambda one: (one.kind, one.namespace, one.name))
DRAIN_RULES: Members[facts.MachineDrainRule] = plainly(facts.MachineDrainRule, lambda one: one.key)

REQUESTS: Members[Request] = plainly(Request, lambda one: one.key)
QUOTAS: Members[Quota] = plainly(Quota, lambda one: one.id)
SPARES: Members[Spare] = plainly(Spare, lambda one: one.like.owner)


def _spell_group(group: facts.NodeGroup, before: facts.NodeGroup | None) -> values.Plain:
    """Instances are many and change one by one; of all else, what is not as it was."""
    new = values.spell(group)
    new.pop("instances", None)
    if before is None:
        return {"all": new, "instances": INSTANCES.find_changes((), group.instances) or []}
    old = values.spell(before)
    old.pop("instances", None)
    spelled: dict[str, Any] = {}
    if new != old:
        spelled["all"] = new
    changed = INSTANCES.find_changes(before.instances, group.instances)
    if changed is not None:
        spelled["instances"] = changed
    return spelled


def _read_group(plain: values.Plain, before: facts.NodeGroup | None) -> facts.NodeGroup:
    known = () if before is None else before.instances
    instances = INSTANCES.change(known, plain["instances"]) if "instances" in plain else known
    group = values.read(facts.NodeGroup, plain["all"]) if "all" in plain else before
    assert group is not None
    return replace(group, instances=instances)


GROUPS: Members[facts.NodeGroup] = Members(lambda one: one.id, _spell_group, _read_group)
