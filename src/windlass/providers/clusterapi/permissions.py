"""Permissions: what node groups on Cluster API take, in the management cluster."""

from windlass.kube.rights import READ, Rule

_GROUP = "cluster.x-k8s.io"
_GROUPS = ("machinedeployments", "machinesets", "machinepools")

READING = (
    Rule(_GROUP, (*_GROUPS, "machines"), READ, "node groups, and the Machines in them"),
    Rule(
        _GROUP,
        ("machinedrainrules", "clusters"),
        READ,
        "how pods are drained, and the labels of Clusters by which rules select; without it there are no such rules",
    ),
    Rule("infrastructure.cluster.x-k8s.io", ("*",), READ, "what a node of an empty group would be like: its template"),
)
"""Enough to watch. Who knows which infrastructure there is may name its kinds of templates in place of all."""

REPORTING = (Rule("", ("events",), ("create", "patch"), "a warning about a group whose size a Cluster topology owns"),)
"""Events about the objects of groups. Without it everything else works, and the log has the warning alone."""


def scaling(group: str = _GROUP, kinds: tuple[str, ...] = _GROUPS) -> tuple[Rule, ...]:
    """What changing the size of groups takes besides: nothing of a group but its size can be written so."""
    return (
        Rule(group, tuple(f"{kind}/scale" for kind in kinds), ("get", "patch"), "the size of a group"),
        Rule(group, ("machines",), ("get", "update"), "the mark of a Machine that is to go first"),
    )
