"""Nodes of the workload cluster, found by whatever a Machine knows of its node."""

from collections.abc import Sequence

from windlass.engine import facts
from windlass.providers.clusterapi import keys, provider_ids
from windlass.providers.clusterapi.machines import Machine


class Nodes:
    """The nodes that exist, by provider id, by name and by the Machine that they say is theirs."""

    def __init__(self, named: keys.Keys) -> None:
        self._keys = named
        self._all: list[facts.Node] = []
        self._by_id: dict[str, facts.Node] = {}
        self._by_name: dict[str, facts.Node] = {}
        self._by_machine: dict[str, facts.Node] = {}
        self._is_ambiguous = False
        """Do several nodes have one id, or one that is empty but for slashes? Then any may stand for the others."""

    def update(self, nodes: Sequence[facts.Node]) -> list[facts.Node]:
        """Take these instead of those before. The nodes that differ, as they were and as they are; all nodes, where one
        may be found in place of another.
        """
        before, self._all = self._all, list(nodes)
        was_ambiguous = self._is_ambiguous
        if len(before) == len(nodes):
            pairs = [(old, new) for old, new in zip(before, nodes, strict=True) if old is not new]
            if all(self._identify(old) == self._identify(new) for old, new in pairs):
                for old, new in pairs:
                    self._replace(old, new)
                return before + self._all if pairs and was_ambiguous else [node for pair in pairs for node in pair]
        self._index()
        if was_ambiguous or self._is_ambiguous:
            return before + self._all
        was, now = {id(node) for node in before}, {id(node) for node in nodes}
        gone = [node for node in before if id(node) not in now]
        return gone + [node for node in nodes if id(node) not in was]

    def find(self, provider_id: str) -> facts.Node | None:
        return self._by_id.get(provider_ids.normalise(provider_id))

    def of_machine(self, machine: Machine) -> facts.Node | None:
        """By provider id; then by the node's own word; by name only where one of both has no provider id to compare."""
        provider_id = machine.provider_id
        if provider_id and (node := self.find(provider_id)):
            return node
        if node := self._by_machine.get(machine.key):
            return node
        named = self._by_name.get(machine.node_name) if machine.node_name else None
        if named is not None and provider_id and named.provider_id:
            return None
        return named

    def name_machine(self, node: facts.Node) -> str:
        """The key of the Machine that a node says is its own; empty if it says nothing."""
        named = node.annotations.get(self._keys.machine)
        return "" if named is None else f"{node.annotations.get(self._keys.cluster_namespace, '')}/{named}"

    def _identify(self, node: facts.Node) -> tuple[str, str, str]:
        """All that a node is found by."""
        return node.name, node.provider_id, self.name_machine(node)

    def _index(self) -> None:
        """Of several nodes with one id, the last is found."""
        nodes = self._all
        self._by_id = {provider_ids.normalise(node.provider_id): node for node in nodes if node.provider_id}
        self._is_ambiguous = "" in self._by_id or len(self._by_id) < sum(1 for node in nodes if node.provider_id)
        self._by_name = {node.name: node for node in nodes}
        self._by_machine = {key: node for node in nodes if (key := self.name_machine(node))}

    def _replace(self, old: facts.Node, new: facts.Node) -> None:
        name, provider_id, machine = self._identify(new)
        ids = ((self._by_id, provider_ids.normalise(provider_id)), (self._by_name, name), (self._by_machine, machine))
        for found, key in ids:
            if found.get(key) is old:
                found[key] = new
