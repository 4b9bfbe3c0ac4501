"""NodePorts: a host port is held by one pod per node, protocol and host address; `0.0.0.0` stands for all addresses.

`::` is no wildcard to kube-scheduler: it conflicts with itself and with `0.0.0.0` only.
"""

from typing import TYPE_CHECKING

import numpy as np

from windlass.engine.model import arrays, facts
from windlass.engine.model.scheduling_reasons import Reason, Refusal, StatusCode

if TYPE_CHECKING:
    from windlass.engine.model.settings import FilterConfig
    from windlass.engine.snapshot.cluster_snapshot import Snapshot

NAME = "NodePorts"
ANY_ADDRESS = "0.0.0.0"
REFUSAL = Refusal(
    NAME, StatusCode.UNSCHEDULABLE, (Reason("node(s) didn't have free ports for the requested pod ports"),)
)


def mask(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> arrays.Mask | None:
    """Bool (n_nodes): True where none of the pod's host ports is held; None if no pod holds such a port."""
    held = [
        counter
        for port in shape.spec.host_ports
        for ip, counter in snapshot.topology_counts.ports.get((port.protocol, port.port), ())
        if ip == port.ip or ANY_ADDRESS in (ip, port.ip)
    ]
    if not held:
        return None
    free = np.ones(snapshot.nodes.count, bool)
    for counter in held:
        free &= snapshot.topology_counts.counts(counter, snapshot.nodes.count) == 0
    return free


def explain(snapshot: "Snapshot", shape: facts.PodShape, row: int, config: "FilterConfig") -> Refusal:
    return REFUSAL
