"""Changes of a snapshot as plain values, and made again in another."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from windlass.autoscaler.recording import journal, values
from windlass.engine import facts, pods
from windlass.engine.snapshot import Snapshot

Specs = dict[facts.PodSpec, int]
"""Specs of pods that were written already, by number."""


def spell(change: journal.Change) -> values.Plain:
    """A list that begins with what happened."""
    match change:
        case journal.NodePut(node, None):
            return ["node", values.spell(node)]
        case journal.NodePut(node, before):
            new, old = values.spell(node), values.spell(before)
            lost = [name for name in old if name not in new]
            return ["change", node.name, {name: each for name, each in new.items() if old.get(name) != each}, lost]
        case journal.NodeGone(name):
            return ["no node", name]
        case journal.PodPut(row, kind, own, node, deleted_s, since_s, facts.Health.READY):
            return ["pod", row, kind, own, node, deleted_s, since_s]
        case journal.PodPut(row, kind, own, node, deleted_s, since_s, health):
            return ["pod", row, kind, own, node, deleted_s, since_s, health.value]
        case journal.PodHealth(row, health):
            return ["health", row, health.value]
        case journal.PodGone(row):
            return ["no pod", row]
        case journal.Namespaces(found):
            return ["namespaces", values.spell(found)]
        case journal.Stored(fact, is_gone):
            return ["not stored" if is_gone else "stored", values.spell_stored(fact)]


class Maker:
    """Makes changes in a snapshot that has the same rows as the one where they were noted."""

    def __init__(self, snapshot: Snapshot, specs: list[facts.PodSpec], kinds: list[pods.Kind]) -> None:
        self.specs, self.kinds = specs, kinds
        self._snapshot = snapshot
        self._by_name: Mapping[str, Callable[..., None]] = {
            "node": self._put_node,
            "change": self._change_node,
            "no node": snapshot.remove_node,
            "pod": self._put_pod,
            "health": self._set_health,
            "no pod": self._remove_pod,
            "namespaces": self._set_namespaces,
            "stored": lambda fact: values.put_stored(snapshot, fact),
            "not stored": lambda fact: values.remove_stored(snapshot, fact),
        }

    def learn(self, specs: values.Plain, kinds: values.Plain) -> None:
        """Specs and kinds of pods that were never met before."""
        self.specs += [values.read(facts.PodSpec, spec) for spec in specs]
        self.kinds += [values.read_kind(kind, self.specs) for kind in kinds]

    def make(self, change: values.Plain) -> None:
        name, *arguments = change
        self._by_name[name](*arguments)

    def _put_node(self, node: values.Plain) -> None:
        self._snapshot.add_node(values.read(facts.Node, node))

    def _change_node(self, name: str, new: dict[str, Any], lost: list[str]) -> None:
        table = self._snapshot.nodes
        before = values.spell(table.facts[table.rows[name]])
        self._put_node({**{field: each for field, each in before.items() if field not in lost}, **new})

    def _put_pod(
        self,
        row: int,
        kind: int,
        own: list[Any] | None,
        node: int | str,
        deleted_s: float | None,
        since_s: float | None,
        health: str = facts.Health.READY,
    ) -> None:
        table = self._snapshot.pods
        if own is None:
            found: values.Own = (table.names[row], table.uids[row], table.labels[row], float(table.created_s[row]))
        else:
            name, uid, labels, created_s = own
            found = name, uid, tuple(labels), created_s
        where = self._snapshot.nodes.names[node] if isinstance(node, int) else node
        pod = values.make_pod(self.kinds[kind], found, where, deleted_s, since_s)
        self._snapshot.add_pod(replace(pod, health=facts.Health(health)))

    def _set_health(self, row: int, health: str) -> None:
        self._snapshot.set_health(self._identify(row), facts.Health(health))

    def _remove_pod(self, row: int) -> None:
        self._snapshot.remove_pod(self._identify(row))

    def _identify(self, row: int) -> str:
        table = self._snapshot.pods
        return table.uids[row] or table.key(row)

    def _set_namespaces(self, found: values.Plain) -> None:
        self._snapshot.set_namespaces([values.read(facts.Namespace, one) for one in found])
