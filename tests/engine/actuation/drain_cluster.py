"""A small world to drain nodes in: facts, what plans do to them, and a clock that jumps to whatever comes next."""

import heapq
import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from tests.engine.scale_down.builders import PEER, node, pod
from windlass.engine import drain_loop, taints
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import facts, node_groups, plan, well_known
from windlass.engine.model.drains import DrainStatus
from windlass.engine.model.durable_memory import DurableMemory, StartedDrain
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.snapshot import cluster_snapshot
from windlass.selectors import LabelSelector, Operator, Requirement

START_S = 1_000_000.0
WINDLASS = Settings()
__all__ = ["PEER", "START_S", "WINDLASS", "Run", "World", "budget_of", "node", "pod", "with_drain"]

Refuse = Callable[[plan.Instruction], str | None]


def with_drain(settings: Settings, **changes: object) -> Settings:
    return replace(settings, drain=replace(settings.drain, **changes))  # type: ignore[arg-type]


def budget_of(name: str, allowed: int) -> facts.PodDisruptionBudget:
    """A budget for the pods labelled with its name."""
    selector = LabelSelector((Requirement("app", Operator.IN, (name,)),))
    return facts.PodDisruptionBudget("default", name, selector, allowed)


class World:
    """Nodes of groups, their pods, budgets and a provider."""

    def __init__(self, nodes: Iterable[facts.Node], pods: Iterable[facts.Pod] = (), *, group: str = "g") -> None:
        self.now_s = START_S
        self.nodes = {one.name: one for one in nodes}
        self.pods = {one.uid: one for one in pods}
        self.budgets: dict[str, facts.PodDisruptionBudget] = {}
        self.group_of = dict.fromkeys(self.nodes, group)
        self.groups = {group: node_groups.NodeGroup(group, 0, 1000, len(self.nodes))}
        self.states: dict[str, str] = {}
        self.refuse: Refuse = lambda _: None
        """Says why an instruction fails, beside what the world itself refuses."""
        self.ends_after_s: dict[str, float] = {}
        """How long pods take to end, by uid; one second where nothing is said."""
        self.machine_takes_s = 20.0
        self.lost: set[str] = set()
        """Nodes whose machines are gone."""
        self.budget_recovers_s = 3.0
        self.recreates = False
        """Do pods that were evicted come back on another node?"""
        self._coming: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()

    # What happens by itself

    def later(self, after_s: float, happens: Callable[[], object]) -> None:
        if after_s < math.inf:
            heapq.heappush(self._coming, (self.now_s + after_s, next(self._numbers), happens))

    @property
    def next_s(self) -> float:
        return self._coming[0][0] if self._coming else math.inf

    def move_to(self, now_s: float) -> None:
        """Let everything happen that comes until then."""
        while self.next_s <= now_s:
            self.now_s, _, happens = heapq.heappop(self._coming)
            happens()
        self.now_s = now_s

    # What others do

    def put(self, *changed: facts.Node | facts.Pod) -> None:
        for item in changed:
            if isinstance(item, facts.Node):
                self.nodes[item.name] = item
            else:
                self.pods[item.uid] = item

    def change(self, name: str, **changes: object) -> None:
        self.nodes[name] = replace(self.nodes[name], **changes)  # type: ignore[arg-type]

    # What is seen, and what plans do

    def observe(self, failed: dict[plan.Instruction, str] | None = None) -> Observation:
        groups = [
            replace(group, instances=tuple(self._instance(name) for name in self.nodes if self._has_machine(name, id)))
            for id, group in self.groups.items()
        ]
        return Observation(
            cluster_snapshot.build_snapshot(self.nodes.values(), self.pods.values()),
            tuple(groups),
            budgets=tuple(self.budgets.values()),
            failed=failed or {},
        )

    def _has_machine(self, name: str, group: str) -> bool:
        return self.group_of[name] == group and name not in self.lost

    def _instance(self, name: str) -> node_groups.Instance:
        return node_groups.Instance(self.nodes[name].provider_id, self.states.get(name, "Running"))

    def execute(self, wanted: plan.Plan) -> dict[plan.Instruction, str]:
        failed: dict[plan.Instruction, str] = {}
        for instruction in wanted:
            said = self.refuse(instruction) or self._do(instruction)
            if said:
                failed[instruction] = said
        return failed

    def _do(self, instruction: plan.Instruction) -> str | None:
        match instruction:
            case plan.SetTaint(name, key, value, effect) if name in self.nodes:
                others = tuple(taint for taint in self.nodes[name].taints if taint.key != key)
                self.change(name, taints=(*others, facts.Taint(key, value, effect)))
            case plan.RemoveTaint(name, key) if name in self.nodes:
                self.change(name, taints=tuple(taint for taint in self.nodes[name].taints if taint.key != key))
            case plan.Cordon(name, cordoned) if name in self.nodes:
                self.change(name, unschedulable=cordoned)
            case plan.Evict():
                return self._evict(instruction)
            case plan.DeleteNode(name, group) if name in self.nodes:
                return self._delete(name, group)
        return None

    def _evict(self, evict: plan.Evict) -> str | None:
        leaving = self.pods.get(evict.uid)
        if leaving is None or leaving.is_terminating:
            return None
        budgets = [budget for budget in self.budgets.values() if _covers(budget, leaving)]
        if any(budget.disruptions_allowed < 1 for budget in budgets):
            return "429: a budget stands in the way"
        for budget in budgets:
            self._spend(budget.name, 1)
        assert evict.grace_s is not None
        self.pods[evict.uid] = replace(leaving, deleted_s=self.now_s + evict.grace_s)
        self.later(self.ends_after_s.get(evict.uid, 1.0), lambda: self._vanish(evict.uid, budgets))
        return None

    def _vanish(self, uid: str, budgets: list[facts.PodDisruptionBudget]) -> None:
        gone = self.pods.pop(uid, None)
        if gone is not None and self.recreates and not well_known.is_daemonset(gone):
            self._recreate(gone)
        for budget in budgets:
            self.later(self.budget_recovers_s, lambda name=budget.name: self._spend(name, -1))  # type: ignore[misc]

    def _recreate(self, gone: facts.Pod) -> None:
        """Start the pod again where there is room for its cpu, or let it wait."""
        staying = [one for one in self.nodes.values() if not one.unschedulable and not one.taints]
        home = next((one.name for one in staying if self._free(one) >= _cpu(gone)), "")
        again = replace(gone, name=f"{gone.name}-r", uid=f"{gone.uid}-r", node_name=home, deleted_s=None)
        if not home:
            again = replace(again, phase="Pending", unschedulable_since_s=self.now_s, created_s=self.now_s)
        self.put(again)

    def _free(self, one: facts.Node) -> int:
        taken = sum(_cpu(other) for other in self.pods.values() if other.node_name == one.name)
        return dict(one.allocatable)[facts.CPU] - taken

    def _spend(self, name: str, disruptions: int) -> None:
        allowed = self.budgets[name].disruptions_allowed - disruptions
        self.budgets[name] = replace(self.budgets[name], disruptions_allowed=allowed)

    def _delete(self, name: str, group: str) -> str | None:
        node_group = self.groups[group]
        if self.states.get(name) == "Deleting":
            return None
        if node_group.target_size <= node_group.min_size:
            return "the group is at its minimum"
        self.groups[group] = replace(node_group, target_size=node_group.target_size - 1)
        self.states[name] = "Deleting"
        self.later(self.machine_takes_s, lambda: self.lose(name))
        return None

    def lose(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.pods = {uid: one for uid, one in self.pods.items() if one.node_name != name}


def _cpu(one: facts.Pod) -> int:
    return dict(one.spec.requests).get(facts.CPU, 0)


def _covers(budget: facts.PodDisruptionBudget, one: facts.Pod) -> bool:
    return budget.selector is not None and budget.selector.matches(one.labels)


@dataclass
class Run:
    """Drains in a world, moved by `advance`, and what came of it."""

    world: World
    settings: Settings = WINDLASS
    memory: LoopMemory = field(default_factory=lambda: LoopMemory(DurableMemory(loop=5)))
    failed: dict[plan.Instruction, str] = field(default_factory=dict)
    done: list[tuple[float, plan.Instruction]] = field(default_factory=list)
    """What was planned, with the seconds since the start."""
    told: list[DrainStatus] = field(default_factory=list)
    """How drains stood, each time that it was another than before."""
    last: drain_loop.DrainLoopResult | None = None

    def begin(self, *names: str, is_empty: bool = False) -> "Run":
        """Begin drains, all at once."""
        world = self.world
        begun = {
            name: StartedDrain(
                world.group_of[name],
                world.now_s,
                is_empty,
                uid=world.nodes[name].uid,
                was_cordoned=world.nodes[name].unschedulable,
            )
            for name in names
        }
        drains = {**self.memory.durable.drains, **begun}
        self.memory = replace(self.memory, durable=replace(self.memory.durable, drains=drains))
        return self

    def ask(self) -> drain_loop.DrainLoopResult:
        """Ask once, and carry out the answer."""
        observation = self.world.observe(self.failed)
        answer = drain_loop.advance(observation, self.memory, self.settings, self.world.now_s)
        self.memory, self.last = answer.memory, answer
        self.done += [(self.world.now_s - START_S, instruction) for instruction in answer.plan]
        latest = {drain.node: drain for drain in self.told}
        self.told += [
            drain_status for drain_status in answer.story if _is_news(latest.get(drain_status.node), drain_status)
        ]
        self.failed = self.world.execute(answer.plan)
        return answer

    def settle(self) -> drain_loop.DrainLoopResult:
        """Ask until nothing more is to be done at this moment."""
        for _ in range(20):
            answer = self.ask()
            if not answer.plan and answer.next_s > self.world.now_s:
                return answer
        raise AssertionError(f"never comes to rest: {answer}")

    def resume(self, until_s: float = math.inf) -> "Run":
        """Let time pass until all drains have ended, or until so many seconds after the start."""
        for _ in range(2000):
            answer = self.settle()
            next_s = min(answer.next_s, self.world.next_s)
            if not self.memory.durable.drains or next_s > START_S + until_s:
                if until_s < math.inf:
                    self.world.move_to(START_S + until_s)
                return self
            assert next_s < math.inf, answer.story
            self.world.move_to(next_s)
        raise AssertionError(f"never ends: {self.told[-10:]}")

    # What came of it

    def phases(self, name: str) -> list[str]:
        return [str(drain.phase) for drain in self.told if drain.node == name]

    def planned(self, kind: type[plan.Instruction]) -> list[tuple[float, plan.Instruction]]:
        return [(at_s, instruction) for at_s, instruction in self.done if isinstance(instruction, kind)]

    def evictions(self) -> list[tuple[float, str]]:
        return [(at_s, instruction.name) for at_s, instruction in self.done if isinstance(instruction, plan.Evict)]

    def deletions(self) -> list[tuple[float, str]]:
        return [(at_s, instruction.node) for at_s, instruction in self.done if isinstance(instruction, plan.DeleteNode)]

    def why(self, name: str) -> str:
        """Why a drain failed; empty if it did not."""
        return next((str(drain.failure.why) for drain in self.told if drain.node == name and drain.failure), "")

    def is_marked(self, name: str) -> bool:
        one = self.world.nodes[name]
        return taints.has_taint(one, taints.TO_BE_DELETED_KEY) or one.unschedulable


def _is_news(before: DrainStatus | None, now: DrainStatus) -> bool:
    return before is None or (before.phase, before.failure) != (now.phase, now.failure)
