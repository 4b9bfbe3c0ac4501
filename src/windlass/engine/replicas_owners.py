"""Replicas owners: groups whose size another controller applies, as the Cluster topology of a ClusterClass does.

A raised size is reverted before its nodes come, and a lowered one after a node was drained. By
`respect_topology_replicas` such a group is neither raised nor lowered until its owner gives the field up. Unlike a held
group it can be read: its health is judged, its nodes take pods, and nodes that the owner asks for are awaited.
"""

from collections.abc import Iterable, Iterator

from windlass.engine import deviations, facts


def is_left_alone(group: facts.NodeGroup, chosen: deviations.Deviations) -> bool:
    """Is the group's size left to its owner?"""
    return group.replicas_owner is not None and chosen.respect_topology_replicas


def list_left_alone(groups: Iterable[facts.NodeGroup], chosen: deviations.Deviations) -> Iterator[tuple[str, str]]:
    """The groups whose size is left to its owner: (id, who owns it and the remedy)."""
    for group in groups:
        if group.replicas_owner is not None and is_left_alone(group, chosen):
            yield group.id, group.replicas_owner.message
