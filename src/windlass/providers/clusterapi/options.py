"""Options: what a group wants otherwise than the flags say.

A value that cannot be read is told and left out, and so the flag's holds; names that nobody knows are passed over.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields as fields_of

from windlass.engine import facts
from windlass.kube import durations, fields
from windlass.providers.clusterapi import keys

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII)


def _read_share(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return float(text)


def _read_bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


_SHARE = (_read_share, "a number such as 0.5")
_TIME = (durations.parse, durations.ACCEPTED)
_BOOL = (_read_bool, "true or false")

_OPTIONS: tuple[tuple[str, str, tuple[Callable[[str], float | bool], str]], ...] = (
    ("scaledownutilizationthreshold", "scale_down_utilization_threshold", _SHARE),
    ("scaledowngpuutilizationthreshold", "scale_down_gpu_utilization_threshold", _SHARE),
    ("scaledownunneededtime", "scale_down_unneeded_s", _TIME),
    ("scaledownunreadytime", "scale_down_unready_s", _TIME),
    ("maxnodeprovisiontime", "max_node_provision_s", _TIME),
    ("maxnodestartuptime", "max_node_startup_s", _TIME),
    ("ignoredaemonsetsutilization", "ignore_daemonsets_utilization", _BOOL),
    ("zeroormaxnodescaling", "zero_or_max", _BOOL),
    ("allownonatomicscaleuptomax", "allow_non_atomic_scale_up_to_max", _BOOL),
)
assert {field for _, field, _ in _OPTIONS} <= {field.name for field in fields_of(facts.GroupOptions)}


def read(
    annotations: Mapping[str, str], named: keys.Keys
) -> tuple[facts.GroupOptions, tuple[fields.InvalidField, ...]]:
    """The options that can be read, and complaints about those that cannot."""
    found: dict[str, float | bool] = {}
    complaints: list[fields.InvalidField] = []
    for name, field, (read_value, accepted) in _OPTIONS:
        key = named.options + name
        text = annotations.get(key, "").lower()
        if not text:
            continue
        try:
            found[field] = read_value(text)
        except ValueError:
            complaints.append(fields.InvalidField(keys.at(key), annotations[key], accepted))
    return facts.GroupOptions(**found), tuple(complaints)  # type: ignore[arg-type]
