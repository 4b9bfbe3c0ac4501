"""Bounds: how small and how large a group may become."""

from collections.abc import Mapping
from dataclasses import dataclass

from windlass import selectors
from windlass.kube import fields
from windlass.providers.clusterapi import keys


@dataclass(frozen=True, slots=True)
class Bounds:
    """At least and at most. A group that may have no node at all is none."""

    min: int = 0
    max: int = 0

    @property
    def make_a_group(self) -> bool:
        return self.max > 0


def read(annotations: Mapping[str, str], named: keys.Keys) -> Bounds:
    """What annotations say; what they do not say is zero. InvalidField if they cannot be meant."""
    least = _read_size(annotations, named.min_size)
    most = _read_size(annotations, named.max_size)
    if most < least:
        found = annotations.get(named.max_size)
        raise fields.InvalidField(keys.at(named.max_size), found, f"at least the minimum, which is {least}")
    return Bounds(least, most)


def _read_size(annotations: Mapping[str, str], key: str) -> int:
    text = annotations.get(key, "0")
    size = selectors.parse_int64(text)
    if size is None or size < 0:
        raise fields.InvalidField(keys.at(key), text, "a whole number, zero or more")
    return size
