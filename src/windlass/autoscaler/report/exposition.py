"""Exposition: metrics as Prometheus reads them, under exactly the names that they have.

The library would append `_total` to counters that the peer names otherwise, add the time at which each series began,
and show families that have no series yet. Go's does none of that.
"""

from collections.abc import Collection, Iterator

import prometheus_client
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from windlass.autoscaler.report import words

_BESIDES = {"histogram": ("_bucket", "_count", "_sum"), "summary": ("", "_count", "_sum")}


def render(registry: prometheus_client.CollectorRegistry, untotalled: Collection[str] = ()) -> bytes:
    """The text of all metrics. `untotalled` are counters whose names do not end in `_total`."""
    return "".join(line for family in registry.collect() for line in _lines(family, untotalled)).encode()


def _lines(family: Metric, untotalled: Collection[str]) -> Iterator[str]:
    name = family.name
    if family.type == "counter" and name not in untotalled:
        name += "_total"
    kind = {"info": "gauge", "stateset": "gauge", "unknown": "untyped", "gaugehistogram": "histogram"}
    samples = [(_name(sample, family, name), sample) for sample in family.samples]
    kept = [(spelled, sample) for spelled, sample in samples if spelled]
    if not kept:
        return
    if family.type == "info":
        name += "_info"
    yield f"# HELP {name} {_escape(family.documentation)}\n"
    yield f"# TYPE {name} {kind.get(family.type, family.type)}\n"
    for spelled, sample in kept:
        yield f"{spelled}{_labels(sample)} {words.number(sample.value)}\n"


def _name(sample: Sample, family: Metric, name: str) -> str:
    """The sample's name; empty if it is not shown."""
    if family.type == "counter":
        return "" if sample.name.endswith("_created") else name
    known = _BESIDES.get(family.type)
    return sample.name if known is None or sample.name.removeprefix(family.name) in known else ""


def _labels(sample: Sample) -> str:
    if not sample.labels:
        return ""
    parts = (f'{key}="{_escape(value, quoted=True)}"' for key, value in sorted(sample.labels.items()))
    return f"{{{','.join(parts)}}}"


def _escape(text: str, quoted: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quoted else text
