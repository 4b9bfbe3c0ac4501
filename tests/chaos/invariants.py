"""What must hold on any day: the simulator's rules at every step, and a cluster in order after a calm night."""

import contextlib
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from tests.chaos import autoscaler_process, day_generator, fault_injector
from tests.unexpected_error_guard import Unforeseen
from windlass.simulator import invariants
from windlass.simulator.cluster import api_client, node_groups
from windlass.simulator.cluster.api_client import Change
from windlass.simulator.scenario import loader, model
from windlass.simulator.simulation import Simulation

Json = dict[str, Any]

_OURS = ("ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler")
_LONGEST_DRAIN_S = 4 * 3600.0
"""Of a node that is marked for deletion: with every delay, budget and restart of a day in it."""
_MOST_CPU_S = 300
"""A day takes a few seconds. One that takes a hundred times as long goes round in circles."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a day."""

    seed: int
    complaints: tuple[str, ...]
    deaths: int
    hits: dict[str, int]
    """How often each kind of weather struck."""
    totals: dict[str, float]
    successions: int = 0
    """How often one process took over from another."""
    cpu_s: float = 0.0


class Endless(Exception):
    """A day that does not end."""


def evaluate(seed: int) -> Verdict:
    """Play the day of a seed."""
    day = day_generator.draw(seed)
    simulation = Simulation(day.scenario)
    marks = Marks(simulation)
    simulation.cluster.event_loop.add_components((marks,))
    skies = fault_injector.Skies(
        day.spells, simulation.clock, simulation.cluster.random_streams.for_component("weather")
    )
    lives = autoscaler_process.Lives(day, skies)
    began_s = time.process_time()
    totals: dict[str, float] = {}
    complaints: list[str] = []
    with Unforeseen() as unforeseen:
        try:
            with _at_most(_MOST_CPU_S):
                result = simulation.run(lives)
        except Exception:
            complaints.append(traceback.format_exc())
        else:
            totals = result.totals
            complaints += [*map(str, result.violations), *lives.complaints, *marks.complaints]
            complaints += _in_the_morning(day, simulation, marks)
    took_s = time.process_time() - began_s
    complaints += unforeseen.found
    return Verdict(seed, tuple(complaints), lives.deaths, skies.counts, totals, lives.successions, took_s)


@contextlib.contextmanager
def _at_most(cpu_s: float) -> Iterator[None]:
    """Endless, if it takes more. Only the main thread can be interrupted so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Endless(f"not over after {cpu_s:g} s of CPU")

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class Marks:
    """How long each node has borne our mark of deletion."""

    watched_kinds = (api_client.NODES,)

    def __init__(self, simulation: Simulation) -> None:
        self._now_s = simulation.cluster.event_loop.now_s
        self.since_s: dict[str, float] = {}
        self.complaints: list[str] = []

    def on_change(self, change: Change) -> None:
        name = change.key
        is_marked = change.now is not None and _OURS[0] in _taints(change.now)
        if is_marked:
            self.since_s.setdefault(name, self._now_s())
            return
        since_s = self.since_s.pop(name, None)
        if since_s is not None and self._now_s() - since_s > _LONGEST_DRAIN_S:
            self.complaints.append(f"node {name} was marked for deletion for {self._now_s() - since_s:g} s")

    def sync(self) -> bool:
        return False


def _in_the_morning(day: day_generator.Day, simulation: Simulation, marks: Marks) -> Iterator[str]:
    """After six hours without a fault."""
    api = simulation.cluster.api
    for name, since_s in marks.since_s.items():
        if day_generator.DAY_S - since_s > _LONGEST_DRAIN_S:
            yield f"node {name} is marked for deletion since {since_s:g} s and still there"
    working = {key: pod for key, pod in api.list_objects(api_client.PODS).items() if _is_work(pod)}
    is_full = all(_size_of(simulation, name) >= group.max for name, group in _groups(day))
    for key, pod in working.items():
        if not pod["spec"].get("nodeName") and not is_full:
            yield f"pod {key} waits for a node"
    yield from _idle(day, simulation, {pod["spec"].get("nodeName", "") for pod in working.values()})


def _is_work(pod: Json) -> bool:
    """A pod of a DaemonSet has its node, or none at all: no other would help it."""
    return not invariants.is_finished(pod) and invariants.controller_of(pod).get("kind") != "DaemonSet"


def _idle(day: day_generator.Day, simulation: Simulation, busy: set[str]) -> Iterator[str]:
    """Groups above their least with machines that nobody uses."""
    api = simulation.cluster.api
    for name, group in _groups(day):
        wanted, smallest = _size_of(simulation, name), group.min
        machines = [
            item
            for item in api.list_objects(api_client.MACHINES).values()
            if item["metadata"]["labels"].get("cluster.x-k8s.io/deployment-name") == name and not _is_held(item, busy)
        ]
        if len(machines) != wanted:
            yield f"group {name} wants {wanted} machines and has {len(machines)}"
        nodes = {_node_of(entry) for entry in machines}
        if wanted > smallest and (unused := sorted(nodes - busy)):
            yield f"group {name}: {wanted} machines, at least {smallest}, but nobody uses {', '.join(unused)}"


def _groups(day: day_generator.Day) -> Iterator[tuple[str, model.Group]]:
    """All groups, by the names of their MachineDeployments."""
    for group in day.scenario.groups:
        for zone in group.zones:
            yield loader.node_group_name(group, zone), group


def _size_of(simulation: Simulation, name: str) -> int:
    found = simulation.cluster.api.list_objects(api_client.MACHINE_DEPLOYMENTS)[f"{node_groups.NAMESPACE}/{name}"]
    return int(found["spec"]["replicas"])


def _is_held(machine: Json, busy: set[str]) -> bool:
    """A machine that its group gave up, and that stays because a budget never lets the pods on it go."""
    return api_client.is_deleting(machine) and _node_of(machine) in busy


def _node_of(machine: Json) -> str:
    return str((machine.get("status") or {}).get("nodeRef", {}).get("name", ""))


def _taints(node: Json) -> set[str]:
    return {taint["key"] for taint in node["spec"].get("taints") or ()}
