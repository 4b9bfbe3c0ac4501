"""Permissions: what node groups on Cluster API take, in the management cluster."""

from windlass.kube.rights import READ, Rule

_GROUP = "cluster.x-k8s.io"
_GROUPS = ("machinedeployments", "machinesets", "machinepools")

READING = (
    Rule(_GROUP, (*_GROUPS, "machines"), READ, "node groups, and the Machines in them"),
    Rule("infrastructure.cluster.x-k8s.io", ("*",), READ, "what a node of an empty group would be like: its template"),
)
"""Enough to watch. Who knows which infrastructure there is may name its kinds of templates in place of all."""


def scaling(group: str = _GROUP, kinds: tuple[str, ...] = _GROUPS) -> tuple[Rule, ...]:
    """What changing the size of groups takes besides: nothing of a group but its size can be written so."""
    return (
        Rule(group, tuple(f"{kind}/scale" for kind in kinds), ("get", "patch"), "the size of a group"),
        Rule(group, ("machines",), ("get", "update"), "the mark of a Machine that is to go first"),
    )
