"""Resources: exact amounts become the integers that the engine counts with."""

import re
from collections.abc import Mapping

from windlass.engine import facts
from windlass.kube import capacity, quantity

_PLAIN = (facts.CPU, facts.MEMORY, facts.EPHEMERAL_STORAGE)
_NATIVE = "kubernetes.io/"
_PREFIXES = ("hugepages-", "attachable-volumes-")
_CLOUD_TPU = "cloud-tpus.google.com/"
"""Prefix of TPUs that are attached to a pod over the network: no node has them, so none lacks them. Cluster Autoscaler
drops such requests from every pod that it looks for a place for."""
_EXTENDED = re.compile(r"(?!requests\.)[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def read_requests(nano: Mapping[str, int]) -> facts.Resources:
    """What NodeResourcesFit counts of a pod's requests, but TPUs; nothing asked for is nothing to count."""
    counted = ((name, _count(name, amount)) for name, amount in nano.items() if amount and _is_counted(name))
    return tuple(sorted(counted))


def read_capacity(nano: Mapping[str, int]) -> facts.Resources:
    """What a node has, under every name it has it."""
    return tuple(sorted((name, _count(name, amount)) for name, amount in nano.items()))


def _count(name: str, nano: int) -> int:
    return capacity.count(name, quantity.Quantity(nano))


def _is_counted(name: str) -> bool:
    """Is it plain, or scalar as kube-scheduler calls it (hugepages, attachable volumes, prefixed names), and no TPU?"""
    if name in _PLAIN or name.startswith(_PREFIXES) or _NATIVE in name:
        return True
    if name.startswith(_CLOUD_TPU):
        return False
    return _EXTENDED.fullmatch(name) is not None
