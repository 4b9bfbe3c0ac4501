"""Instances: what a Machine is to the engine.

with a node                          Running, under the node's own provider id
on its way out, or marked for it     Deleting
without a node and failed            Creating, with the error that keeps it from ever becoming one
without a node                       Creating
"""

from windlass.engine import facts
from windlass.providers.clusterapi import drain_rules, provider_ids
from windlass.providers.clusterapi.machines import Machine


def describe(
    machine: Machine, node: facts.Node | None, is_leaving: bool, drain: drain_rules.Selecting
) -> facts.Instance:
    """The instance behind a Machine, given its node, if it has one, whether it was told to go, and its drain rules."""
    is_leaving = is_leaving or machine.is_deleting
    if node is not None:
        state = "Deleting" if is_leaving else "Running"
        return facts.Instance(node.provider_id, state, machine_drain_rules=drain[0], unreadable_drain_rules=drain[1])
    if is_leaving:
        return facts.Instance(_name(provider_ids.Kind.DELETING, machine), "Deleting")
    if machine.node_name and machine.provider_id:
        return facts.Instance(machine.provider_id, had_node=True)
    if machine.failure is not None:
        return facts.Instance(_name(provider_ids.Kind.FAILED, machine), "Creating", machine.failure)
    return facts.Instance(_name(provider_ids.Kind.PENDING, machine), "Creating")


def _name(kind: provider_ids.Kind, machine: Machine) -> str:
    return provider_ids.make(kind, machine.namespace, machine.name)
