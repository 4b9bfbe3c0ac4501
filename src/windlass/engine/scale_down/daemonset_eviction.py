"""DaemonSet eviction: which DaemonSet pods of a node that goes are evicted, rather than just ending with it.

The user decides for nodes with other pods and for nodes without; each pod may decide otherwise for itself. Evicting
gives a pod time to end in order, which costs time that an empty node need not take.
"""

from windlass.engine import facts

ENABLE_EVICTION = "cluster-autoscaler.kubernetes.io/enable-ds-eviction"
"""`true` on a DaemonSet's pod: evict it. Any other value: do not."""


def is_evicted(pod: facts.Pod, by_default: bool) -> bool:
    """Is this DaemonSet pod evicted? `by_default` is what holds for its kind of node."""
    own = pod.annotations.get(ENABLE_EVICTION)
    return by_default if own is None else own == "true"
