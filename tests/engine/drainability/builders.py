"""A pod that no rule minds, to be changed in the one thing a test is about."""

from dataclasses import replace
from typing import Any

from windlass.engine.drainability import context as drainability_context
from windlass.engine.drainability import pdb
from windlass.engine.drainability.context import DrainContext, NodeDeleteOptions
from windlass.engine.model import facts, node_groups
from windlass.selectors import LabelSelector, Operator, Requirement

NOW_S = 1_000_000.0
REPLICA_SET = facts.Owner("apps/v1", "ReplicaSet", "web", "uid-web")

PLAIN = facts.Pod(
    "default", "p0", uid="uid-p0", labels={"app": "web"}, owner=REPLICA_SET, node_name="n0", phase="Running",
    created_s=NOW_S - 100,
)  # fmt: skip


def pod(**changes: Any) -> facts.Pod:
    return replace(PLAIN, **changes)


def owned(api_version: str, kind: str, name: str = "web", **changes: Any) -> facts.Pod:
    return pod(owner=facts.Owner(api_version, kind, name, f"uid-{name}"), **changes)


def storing(*volumes: facts.Volume, **changes: Any) -> facts.Pod:
    return pod(spec=facts.PodSpec(volumes=volumes), **changes)


def budget(allowed: int, namespace: str = "default", **labels: str) -> facts.PodDisruptionBudget:
    return facts.PodDisruptionBudget(namespace, "covers", labelled(**labels), allowed)


def labelled(**labels: str) -> LabelSelector:
    return LabelSelector(tuple(Requirement(key, Operator.IN, (value,)) for key, value in sorted(labels.items())))


def rules_on_n0(*rules: node_groups.MachineDrainRule, unreadable: str = "") -> drainability_context.DrainRules:
    """All pods here are on that node, in the first row."""
    on_node = {"n0": drainability_context.NodeDrainRules(rules, unreadable)}
    return drainability_context.DrainRules(on_node, {0: "n0"}, {"default": {"team": "a"}}, is_respected=True)


def context(
    *controllers: facts.Controller,
    listed: bool = True,
    budgets: tuple[facts.PodDisruptionBudget, ...] = (),
    spares_unhealthy: bool = False,
    drain_rules: drainability_context.DrainRules = drainability_context.NO_DRAIN_RULES,
    **options: Any,
) -> DrainContext:
    by_key = {(c.kind, c.namespace, c.name): c for c in controllers}
    remaining = pdb.RemainingPdbTracker(budgets, spares_unhealthy=spares_unhealthy)
    return DrainContext(NOW_S, NodeDeleteOptions(**options), by_key if listed else None, remaining, drain_rules)
