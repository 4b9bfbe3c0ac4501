"""Nodes of the workload cluster, found by whatever a Machine knows of its node."""

from collections.abc import Sequence

from windlass.engine import facts
from windlass.kube.models import clusterapi
from windlass.providers.clusterapi import keys, provider_ids


class Nodes:
    """The nodes that exist, by provider id, by name and by the Machine that they say is theirs."""

    def __init__(self, nodes: Sequence[facts.Node], named: keys.Keys) -> None:
        self._by_id = {provider_ids.normalise(node.provider_id): node for node in nodes if node.provider_id}
        self._by_name = {node.name: node for node in nodes}
        self._by_machine = {
            f"{node.annotations.get(named.cluster_namespace, '')}/{node.annotations[named.machine]}": node
            for node in nodes
            if named.machine in node.annotations
        }

    def find(self, provider_id: str) -> facts.Node | None:
        return self._by_id.get(provider_ids.normalise(provider_id))

    def of_machine(self, machine: clusterapi.Machine) -> facts.Node | None:
        """By provider id; then by the node's own word; by name only where one of both has no provider id to compare."""
        provider_id = (machine.spec.provider_id if machine.spec else None) or ""
        if provider_id and (node := self.find(provider_id)):
            return node
        if node := self._by_machine.get(machine.meta.key):
            return node
        reference = machine.status.node_ref if machine.status else None
        named = self._by_name.get(reference.name) if reference and reference.name else None
        if named is not None and provider_id and named.provider_id:
            return None
        return named
