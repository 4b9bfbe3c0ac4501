"""The simulated cloud provider: instances that boot after a delay, fail to boot, go down with their zone, or vanish.

It knows instances, not API objects; listeners hear of each instance's life cycle.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from windlass.simulator.cluster.event_loop import EventLoop
from windlass.simulator.cluster.node_groups import NodeGroup, RandomStreams

ASKED, BOOTING, UP, DOWN, STUCK, GONE = "asked", "booting", "up", "down", "stuck", "gone"

_PROVIDER_ID_SHARE = 0.2
"""The part of the boot time after which the instance exists and has an id."""


@dataclass(slots=True, eq=False)
class Instance:
    """One machine of the cloud."""

    machine: str
    """The Machine's key."""
    name: str
    group: NodeGroup
    state: str = ASKED
    has_id: bool = False
    is_ended_on_purpose: bool = False

    @property
    def provider_id(self) -> str:
        return f"simulated:///{self.group.zone}/{self.name}"


class InstanceListener(Protocol):
    """Someone who must know what becomes of instances."""

    def instance_created(self, instance: Instance) -> None:
        """The cloud has it: it has an id."""

    def instance_running(self, instance: Instance) -> None:
        """It runs, for the first time or again."""

    def instance_unreachable(self, instance: Instance) -> None:
        """It does not answer any more. It may come back."""

    def instance_terminated(self, instance: Instance) -> None:
        """It will never come back."""


class Cloud:
    """All instances."""

    def __init__(self, pulse: EventLoop, groups: Iterable[NodeGroup], dice: RandomStreams) -> None:
        self._pulse = pulse
        self.groups = {group.name: group for group in groups}
        self._chance = dice.for_component("cloud")
        self._picks = dice.for_component("misfortunes")
        self._witnesses: list[InstanceListener] = []
        self.instances: dict[str, Instance] = {}
        """By the Machine's key."""
        self._dark: set[str] = set()
        self._sold_out: set[str] = set()
        self.is_starting = True
        """Do machines come without delay or failure? So it is until the world begins."""

    def add_listener(self, witness: InstanceListener) -> None:
        self._witnesses.append(witness)

    # ── Orders ───────────────────────────────────────────────────────────────────────────────────────────────────

    def launch(self, machine: str, name: str, group: NodeGroup) -> None:
        instance = self.instances[machine] = Instance(machine, name, group)
        if not self._is_held(instance):
            self._boot(instance)

    def _is_held(self, instance: Instance) -> bool:
        return instance.group.name in self._sold_out or instance.group.zone in self._dark

    def _boot(self, instance: Instance) -> None:
        instance.state = BOOTING
        boot_s = 0.0 if self.is_starting else instance.group.boot.sample(self._chance)
        is_failing = self._chance.random() < instance.group.failure_rate and not self.is_starting
        self._pulse.call_later(boot_s * _PROVIDER_ID_SHARE, lambda: self._come(instance))
        self._pulse.call_later(boot_s, lambda: self._start(instance, is_failing))
        if instance.group.lifetime is not None:
            life_s = instance.group.lifetime.sample(self._chance)
            self._pulse.call_later(boot_s + life_s, lambda: self.vanish(instance))

    def _come(self, instance: Instance) -> None:
        if instance.state == BOOTING:
            instance.has_id = True
            for witness in self._witnesses:
                witness.instance_created(instance)

    def _start(self, instance: Instance, is_failing: bool) -> None:
        if instance.state != BOOTING:
            return
        instance.state = STUCK if is_failing else UP
        if not is_failing:
            for witness in self._witnesses:
                witness.instance_running(instance)

    def terminate(self, machine: str) -> None:
        """End an instance for good, after the time that takes."""
        instance = self.instances.get(machine)
        if instance is None or instance.is_ended_on_purpose:
            return
        instance.is_ended_on_purpose = True
        delay_s = instance.group.stop.sample(self._chance) if instance.has_id and instance.state != GONE else 0.0
        self._pulse.call_later(delay_s, lambda: self._end(instance))

    def _end(self, instance: Instance) -> None:
        instance.state = GONE
        self.instances.pop(instance.machine, None)
        for witness in self._witnesses:
            witness.instance_terminated(instance)

    # ── Misfortunes ──────────────────────────────────────────────────────────────────────────────────────────────

    def vanish(self, instance: Instance) -> None:
        """The instance is gone, though nobody wanted it to."""
        if instance.state not in (UP, DOWN) or instance.is_ended_on_purpose:
            return
        was_up = instance.state == UP
        instance.state = GONE
        for witness in self._witnesses:
            if was_up:
                witness.instance_unreachable(instance)
            witness.instance_terminated(instance)

    def take_down(self, instance: Instance) -> None:
        if instance.state == UP:
            instance.state = DOWN
            for witness in self._witnesses:
                witness.instance_unreachable(instance)

    def bring_back(self, instance: Instance) -> None:
        if instance.state == DOWN and instance.group.zone not in self._dark:
            instance.state = UP
            for witness in self._witnesses:
                witness.instance_running(instance)

    def pick(self, group: str, count: int) -> list[Instance]:
        """Some instances of a group that run, by chance. A group's name may leave its zone out."""
        running = [
            one
            for one in self.instances.values()
            if one.state == UP and group in (one.group.name, one.group.machine_type)
        ]
        return self._picks.sample(running, min(count, len(running)))

    def fail_zone(self, zone: str) -> None:
        """Everything in a zone goes down, and nothing new comes up there."""
        self._dark.add(zone)
        for instance in list(self.instances.values()):
            if instance.group.zone != zone:
                continue
            if instance.state == BOOTING:
                instance.state = ASKED
            self.take_down(instance)

    def recover_zone(self, zone: str) -> None:
        self._dark.discard(zone)
        for instance in list(self.instances.values()):
            if instance.group.zone == zone:
                self.bring_back(instance)
        self._resume()

    def exhaust_capacity(self, group: str) -> None:
        """The cloud has no machine of this kind left."""
        self._sold_out.add(group)

    def restore_capacity(self, group: str) -> None:
        self._sold_out.discard(group)
        self._resume()

    def _resume(self) -> None:
        for instance in list(self.instances.values()):
            if instance.state == ASKED and not instance.is_ended_on_purpose and not self._is_held(instance):
                self._boot(instance)
