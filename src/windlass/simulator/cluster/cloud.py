"""The simulated cloud provider: instances that boot after a delay, fail to boot, go down with their zone, or vanish.

It handles instances, not API objects; listeners are notified of each instance's life cycle.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from windlass.simulator.cluster.event_loop import EventLoop
from windlass.simulator.cluster.node_groups import DelaySampler, NodeGroup, RandomStreams

ASKED, BOOTING, UP, DOWN, STUCK, GONE = "asked", "booting", "up", "down", "stuck", "gone"

_PROVIDER_ID_SHARE = 0.2
"""Share of the boot time after which the instance exists and has an id."""


@dataclass(slots=True, eq=False)
class Instance:
    """One instance of the cloud."""

    machine: str
    """Key of the Machine."""
    name: str
    group: NodeGroup
    state: str = ASKED
    has_id: bool = False
    is_ended_on_purpose: bool = False

    @property
    def provider_id(self) -> str:
        return f"simulated:///{self.group.zone}/{self.name}"


class InstanceListener(Protocol):
    """Listener to the life cycle of instances."""

    def instance_created(self, instance: Instance) -> None:
        """The instance exists and has an id."""

    def instance_running(self, instance: Instance) -> None:
        """The instance runs, for the first time or again."""

    def instance_unreachable(self, instance: Instance) -> None:
        """The instance does not respond. It may recover."""

    def instance_terminated(self, instance: Instance) -> None:
        """The instance is terminated for good."""


class Cloud:
    """All instances."""

    def __init__(self, event_loop: EventLoop, groups: Iterable[NodeGroup], generator: RandomStreams) -> None:
        self._event_loop = event_loop
        self.groups = {group.name: group for group in groups}
        self._rng = generator.for_component("cloud")
        self._delays = DelaySampler(self._rng)
        self._picks = generator.for_component("misfortunes")
        self._listeners: list[InstanceListener] = []
        self.instances: dict[str, Instance] = {}
        """Instances by the Machine's key."""
        self._dark: set[str] = set()
        self._sold_out: set[str] = set()
        self.is_starting = True
        """Do instances boot without delay or failure, as before the start of virtual time?"""

    def add_listener(self, listener: InstanceListener) -> None:
        self._listeners.append(listener)

    # ── Requests──────────────────────────────────────────────────────────────────────────────────────────────────

    def launch(self, machine: str, name: str, group: NodeGroup) -> None:
        instance = self.instances[machine] = Instance(machine, name, group)
        if not self._is_held(instance):
            self._boot(instance)

    def _is_held(self, instance: Instance) -> bool:
        return instance.group.name in self._sold_out or instance.group.zone in self._dark

    def _boot(self, instance: Instance) -> None:
        instance.state = BOOTING
        boot_s = 0.0 if self.is_starting else self._delays.sample(instance.group.boot, ("boot", instance.group.name))
        is_failing = self._rng.random() < instance.group.failure_rate and not self.is_starting
        if math.isinf(boot_s):
            boot_s, is_failing = 0.0, True
        self._event_loop.call_later(boot_s * _PROVIDER_ID_SHARE, lambda: self._set_created(instance))
        self._event_loop.call_later(boot_s, lambda: self._start(instance, is_failing))
        if instance.group.lifetime is not None:
            life_s = self._delays.sample(instance.group.lifetime, ("lifetime", instance.group.name))
            self._event_loop.call_later(boot_s + life_s, lambda: self.vanish(instance))

    def _set_created(self, instance: Instance) -> None:
        if instance.state == BOOTING:
            instance.has_id = True
            for listener in self._listeners:
                listener.instance_created(instance)

    def _start(self, instance: Instance, is_failing: bool) -> None:
        if instance.state != BOOTING:
            return
        instance.state = STUCK if is_failing else UP
        if not is_failing:
            for listener in self._listeners:
                listener.instance_running(instance)

    def terminate(self, machine: str) -> None:
        """Terminate an instance, after the termination delay."""
        instance = self.instances.get(machine)
        if instance is None or instance.is_ended_on_purpose:
            return
        instance.is_ended_on_purpose = True
        has_ended = not instance.has_id or instance.state == GONE
        delay_s = 0.0 if has_ended else self._delays.sample(instance.group.stop, ("stop", instance.group.name))
        self._event_loop.call_later(delay_s, lambda: self._end(instance))

    def _end(self, instance: Instance) -> None:
        instance.state = GONE
        self.instances.pop(instance.machine, None)
        for listener in self._listeners:
            listener.instance_terminated(instance)

    # ── Faults ───────────────────────────────────────────────────────────────────────────────────────────────────

    def vanish(self, instance: Instance) -> None:
        """The instance disappears without a request, as a reclaimed spot instance does."""
        if instance.state not in (UP, DOWN) or instance.is_ended_on_purpose:
            return
        was_up = instance.state == UP
        instance.state = GONE
        for listener in self._listeners:
            if was_up:
                listener.instance_unreachable(instance)
            listener.instance_terminated(instance)

    def take_down(self, instance: Instance) -> None:
        if instance.state == UP:
            instance.state = DOWN
            for listener in self._listeners:
                listener.instance_unreachable(instance)

    def bring_back(self, instance: Instance) -> None:
        if instance.state == DOWN and instance.group.zone not in self._dark:
            instance.state = UP
            for listener in self._listeners:
                listener.instance_running(instance)

    def pick(self, group: str, count: int) -> list[Instance]:
        """Random running instances of a group. A group's name may omit its zone."""
        running = [
            instance
            for instance in self.instances.values()
            if instance.state == UP and group in (instance.group.name, instance.group.machine_type)
        ]
        return self._picks.sample(running, min(count, len(running)))

    def fail_zone(self, zone: str) -> None:
        """All instances of a zone become unreachable, and no new ones boot there."""
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
        """The cloud has no capacity left for this group."""
        self._sold_out.add(group)

    def restore_capacity(self, group: str) -> None:
        self._sold_out.discard(group)
        self._resume()

    def _resume(self) -> None:
        for instance in list(self.instances.values()):
            if instance.state == ASKED and not instance.is_ended_on_purpose and not self._is_held(instance):
                self._boot(instance)
