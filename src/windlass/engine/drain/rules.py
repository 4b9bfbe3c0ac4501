"""The rules in their order, and what they make of the pods of a node. The first rule with an opinion counts."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from windlass.engine import facts, pod_traits
from windlass.engine.drain import (
    budget,
    daemonset,
    local_storage,
    long_terminating,
    mirror,
    not_safe_to_evict,
    on_completion,
    replica_count,
    replicated,
    safe_to_evict,
    system,
    terminal,
)
from windlass.engine.drain.context import Context
from windlass.engine.drain.outcome import Action, Outcome

Rule = Callable[[facts.Pod, Context], Outcome | None]

RULES: tuple[Rule, ...] = (
    # Not there to be drained.
    mirror.decide,  # the kubelet's own copy of a static pod: skipped
    long_terminating.decide,  # should long be gone: skipped
    # Blocks before anything may allow: a pod that nothing recreates is not moved even if it is marked as safe.
    replica_count.decide,  # its controller is gone, or wants too few replicas
    # Allow, or wait: the pod may go whatever the rules below would say.
    daemonset.decide,  # ends with the node
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


@dataclass(frozen=True, slots=True)
class Blocking:
    """The pod that keeps its node, and the outcome that says why."""

    pod: facts.Pod
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Moves:
    """What draining a node means for its pods. Where one blocks, the pods after it were not looked at."""

    move: tuple[facts.Pod, ...] = ()
    """To be evicted, and to find room elsewhere."""
    daemonset: tuple[facts.Pod, ...] = ()
    """May be evicted; need no room elsewhere."""
    on_completion: tuple[facts.Pod, ...] = ()
    """To be waited for."""
    blocking: Blocking | None = None


def judge(pod: facts.Pod, context: Context) -> Outcome | None:
    """The first opinion on a pod. None where no rule has one: the pod may go."""
    for decide in RULES:
        outcome = decide(pod, context)
        if outcome is not None:
            return outcome
    return None


def pods_to_move(candidates: Iterable[facts.Pod], context: Context) -> Moves:
    """What becomes of the pods of one node, in their order, up to the first that blocks."""
    move: list[facts.Pod] = []
    daemonset_pods: list[facts.Pod] = []
    on_completion_pods: list[facts.Pod] = []
    blocking = None
    for pod in candidates:
        outcome = judge(pod, context)
        if outcome is None or outcome.action is Action.DRAIN:
            (daemonset_pods if pod_traits.is_daemonset(pod) else move).append(pod)
        elif outcome.action is Action.WAIT:
            on_completion_pods.append(pod)
        elif outcome.action is Action.BLOCK:
            blocking = Blocking(pod, outcome)
            break
    return Moves(tuple(move), tuple(daemonset_pods), tuple(on_completion_pods), blocking)
