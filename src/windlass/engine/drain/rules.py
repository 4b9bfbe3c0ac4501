"""The rules in their order, and what they make of the pods of a node. The first rule with an opinion counts."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from windlass.engine import facts
from windlass.engine.drain import (
    budget,
    daemonset,
    do_not_disrupt,
    drain_label,
    local_storage,
    long_terminating,
    machine_drain_rule,
    mirror,
    not_safe_to_evict,
    on_completion,
    replica_count,
    replicated,
    safe_to_evict,
    system,
    terminal,
    unreadable,
    unreadable_drain_rules,
)
from windlass.engine.drain.context import Context
from windlass.engine.drain.outcome import Action, Outcome

Rule = Callable[[facts.Pod, Context], Outcome | None]

RULES: tuple[Rule, ...] = (
    # Blocks a node with any pod at all, as Cluster API's drain of it fails.
    unreadable_drain_rules.decide,  # which MachineDrainRules hold for the node is not known
    # Not there to be drained.
    mirror.decide,  # the kubelet's own copy of a static pod: skipped
    long_terminating.decide,  # should long be gone: skipped
    # Blocks before anything may allow: a pod that nothing recreates is not moved even if it is marked as safe.
    unreadable.decide,  # runs, and nobody knows what it needs
    replica_count.decide,  # its controller is gone, or wants too few replicas
    do_not_disrupt.decide,  # the user says so, in Karpenter's words
    # Allow, or wait: the pod may go whatever the rules below would say.
    daemonset.decide,  # ends with the node
    drain_label.decide,  # the user says so, in Cluster API's words: ends with the node, or is waited for
    machine_drain_rule.decide,  # the same, said of Machines and pods in the management cluster
    safe_to_evict.decide,  # the user says so
    terminal.decide,  # has ended already
    on_completion.decide,  # the user asks to let it finish
    # Block.
    replicated.decide,  # nothing would start it again
    system.decide,  # kube-system without a budget, and young; an old one may go, past the rules below
    not_safe_to_evict.decide,  # the user says so
    local_storage.decide,  # data would be lost
    budget.decide,  # no disruption is allowed now
)


Item = TypeVar("Item")
"""A pod, or what stands for one: its row in a snapshot."""


@dataclass(frozen=True, slots=True)
class Blocking(Generic[Item]):
    """The pod that keeps its node, and the outcome that says why."""

    pod: Item
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Moves(Generic[Item]):
    """What draining a node means for its pods. Where one blocks, the pods after it were not looked at."""

    move: tuple[Item, ...] = ()
    """To be evicted, and to find room elsewhere."""
    daemonset: tuple[Item, ...] = ()
    """May be evicted; need no room elsewhere."""
    on_completion: tuple[Item, ...] = ()
    """To be waited for."""
    blocking: Blocking[Item] | None = None


def judge(pod: facts.Pod, context: Context) -> Outcome | None:
    """The first opinion on a pod. None where no rule has one: the pod may go."""
    for decide in RULES:
        outcome = decide(pod, context)
        if outcome is not None:
            return outcome
    return None


def sort_out(
    items: Iterable[Item], opinion: Callable[[Item], Outcome | None], is_daemonset: Callable[[Item], bool]
) -> Moves[Item]:
    """What becomes of these, given the first opinion on each."""
    move: list[Item] = []
    daemonset_pods: list[Item] = []
    on_completion_pods: list[Item] = []
    blocking = None
    for item in items:
        outcome = opinion(item)
        if outcome is None or outcome.action is Action.DRAIN:
            (daemonset_pods if is_daemonset(item) else move).append(item)
        elif outcome.action is Action.WAIT:
            on_completion_pods.append(item)
        elif outcome.action is Action.BLOCK:
            blocking = Blocking(item, outcome)
            break
    return Moves(tuple(move), tuple(daemonset_pods), tuple(on_completion_pods), blocking)
