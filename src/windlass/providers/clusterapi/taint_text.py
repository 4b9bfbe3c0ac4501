"""Taints as people write them into an annotation: `key=value:Effect,…`.

The value may be missing. An entry that cannot be read is told and left out; the others stay.
"""

from collections.abc import Iterable, Mapping

from windlass import label_syntax
from windlass.engine import facts
from windlass.kube import fields
from windlass.kube.models import core
from windlass.providers.clusterapi import keys

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_ACCEPTED = "key=value:Effect, with an effect of NoSchedule, PreferNoSchedule or NoExecute"


def read(
    annotations: Mapping[str, str], declared: Iterable[core.Taint] | None
) -> tuple[tuple[facts.Taint, ...], tuple[fields.InvalidField, ...]]:
    """The taints of a new node: those declared on the template, overruled by the annotation; and complaints."""
    found: dict[tuple[str, str], facts.Taint] = {}
    complaints: list[fields.InvalidField] = []
    for taint in declared or ():
        if taint.key and taint.effect in _EFFECTS:
            found[taint.key, taint.effect] = facts.Taint(taint.key, taint.value or "", taint.effect)
    for entry in filter(None, annotations.get(keys.TAINTS, "").split(",")):
        parsed = parse(entry)
        if parsed is None:
            complaints.append(fields.InvalidField(keys.at(keys.TAINTS), entry, _ACCEPTED))
        else:
            found[parsed.key, parsed.effect] = parsed
    return tuple(found.values()), tuple(complaints)


def parse(entry: str) -> facts.Taint | None:
    """One entry; None if it is no taint, or would have no effect."""
    rest, colon, effect = entry.partition(":")
    key, _, value = rest.partition("=")
    if not colon or effect not in _EFFECTS:
        return None
    try:
        label_syntax.read_selector(label_syntax.WrittenSelector({key: value}))
    except label_syntax.BadSelector:
        return None
    return facts.Taint(key, value, effect)
