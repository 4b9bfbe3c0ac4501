"""Sinks: informers keep a snapshot current, object by object, and nothing else of what they read is kept.

A pod is read into facts and counted in columns at once; its JSON lives no longer than the chunk it came in.
"""

from windlass.autoscaler.observe import nodes, pods
from windlass.engine import snapshot
from windlass.kube.models import core, meta
from windlass.kube.models import pods as pod_models


class PodSink:
    """Keeps the pods of a snapshot as the server has them."""

    def __init__(self, kept: snapshot.Snapshot) -> None:
        self._snapshot = kept
        self._unseen: set[str] | None = None

    def begin(self) -> None:
        self._unseen = set(self._snapshot.pods.rows)

    def put(self, metadata: meta.ObjectMeta, found: pod_models.Pod) -> None:
        """InvalidObject if the pod cannot be read; the informer then has it removed."""
        if self._unseen is not None:
            self._unseen.discard(_identity(metadata))
        self._snapshot.add_pod(pods.read(found))

    def remove(self, metadata: meta.ObjectMeta) -> None:
        self._snapshot.remove_pod(_identity(metadata))

    def end(self) -> None:
        for identity in self._unseen or ():
            self._snapshot.remove_pod(identity)
        self._unseen = None


class NodeSink:
    """Keeps the nodes of a snapshot as the server has them."""

    def __init__(self, kept: snapshot.Snapshot) -> None:
        self._snapshot = kept
        self._unseen: set[str] | None = None

    def begin(self) -> None:
        self._unseen = set(self._snapshot.nodes.rows)

    def put(self, metadata: meta.ObjectMeta, found: core.Node) -> None:
        """InvalidObject if the node cannot be read; the informer then has it removed."""
        if self._unseen is not None:
            self._unseen.discard(metadata.name or "")
        self._snapshot.add_node(nodes.read(found))

    def remove(self, metadata: meta.ObjectMeta) -> None:
        self._drop(metadata.name or "")

    def end(self) -> None:
        for name in self._unseen or ():
            self._drop(name)
        self._unseen = None

    def _drop(self, name: str) -> None:
        if name in self._snapshot.nodes.rows:
            self._snapshot.remove_node(name)


def _identity(metadata: meta.ObjectMeta) -> str:
    """As the snapshot names pods."""
    return metadata.uid or metadata.key
