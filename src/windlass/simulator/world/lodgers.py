"""Which pods are on which node, kept current. Nothing is kept of nodes without pods."""


class Lodgers:
    """Keys of pods by node, in the order in which they came."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, None]] = {}

    def put(self, node: str, pod: str) -> None:
        self._by_node.setdefault(node, {})[pod] = None

    def drop(self, node: str, pod: str) -> None:
        held = self._by_node.get(node)
        if held is not None:
            held.pop(pod, None)
            if not held:
                del self._by_node[node]

    def on(self, node: str) -> list[str]:
        return list(self._by_node.get(node, ()))
