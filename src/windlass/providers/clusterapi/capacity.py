"""Capacity: what a new node of a group would have, as its annotations and its infrastructure template say.

An annotation overrules the template; one that says zero says nothing. What a template says and cannot be read is passed
over, since others wrote it; what an annotation says and cannot be read is told.
"""

from collections.abc import Mapping

from windlass import selectors
from windlass.engine import facts
from windlass.kube import capacity as node_capacity
from windlass.kube import fields, quantity
from windlass.kube.models import clusterapi
from windlass.providers.clusterapi import keys

DEFAULT_PODS = 110

Capacity = dict[str, quantity.Quantity]

_AMOUNTS = (
    (facts.CPU, keys.CPU),
    (facts.MEMORY, keys.MEMORY),
    (facts.EPHEMERAL_STORAGE, keys.EPHEMERAL_DISK),
)
_RESOURCES = {key: name for name, key in _AMOUNTS}


def find(annotations: Mapping[str, str], template: clusterapi.InfrastructureTemplate | None) -> Capacity:
    """All that is known. InvalidField if an annotation cannot be read."""
    found = {facts.PODS: quantity.Quantity(DEFAULT_PODS * quantity.NANO)}
    return found | read_template(template) | read_annotations(annotations)


def is_enough(found: Capacity) -> bool:
    """Can a node be made from this that nobody has seen yet?"""
    return facts.CPU in found and facts.MEMORY in found


def read_annotations(annotations: Mapping[str, str]) -> Capacity:
    found = {name: read_quantity(annotations, key) for name, key in _AMOUNTS}
    found[facts.PODS] = read_count(annotations, keys.MAX_PODS)
    count = read_count(annotations, keys.GPU_COUNT)
    if gpu_type := annotations.get(keys.GPU_TYPE):
        found[gpu_type] = count
    return {name: amount for name, amount in found.items() if amount.nano}


def read_template(template: clusterapi.InfrastructureTemplate | None) -> Capacity:
    status = template.status if template else None
    found = {}
    for name, value in ((status.capacity if status else None) or {}).items():
        try:
            amount = quantity.saturate(quantity.read(value))
            node_capacity.check(name, amount, value, name)
        except ValueError:
            continue
        if amount.nano >= 0:
            found[name] = amount
    return found


def read_quantity(annotations: Mapping[str, str], key: str) -> quantity.Quantity:
    """The amount that an annotation names; zero if it is not there."""
    text = annotations.get(key, "")
    if not text:
        return quantity.ZERO
    try:
        amount = quantity.saturate(quantity.parse(text))
    except ValueError:
        raise fields.InvalidField(keys.at(key), text, quantity.ACCEPTED) from None
    if amount.nano < 0:
        raise fields.InvalidField(keys.at(key), text, "a quantity of zero or more")
    node_capacity.check(_RESOURCES.get(key, key), amount, text, keys.at(key))
    return amount


def read_count(annotations: Mapping[str, str], key: str) -> quantity.Quantity:
    """The whole number that an annotation names; zero if it is not there."""
    text = annotations.get(key, "")
    if not text:
        return quantity.ZERO
    count = selectors.parse_int64(text)
    if count is None or count < 0:
        raise fields.InvalidField(keys.at(key), text, "a whole number, zero or more")
    amount = quantity.Quantity(count * quantity.NANO)
    node_capacity.check(key, amount, text, keys.at(key))
    return amount


def count(found: Capacity) -> facts.Resources:
    """As the engine counts: millicores, bytes, pieces."""
    return tuple(sorted((name, node_capacity.count(name, amount)) for name, amount in found.items()))
