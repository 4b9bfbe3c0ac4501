"""What holds a pod back besides filters: scheduling gates.

Facts do not carry their names, because no decision depends on them; a person who asks about a pod wants to know.
"""

from collections.abc import Iterable

import msgspec

from windlass import errors
from windlass.kube import models
from windlass.kube.models import meta

_TELLING = b'"schedulingGates"'
"""Few pods have any, and most objects are passed over by looking for this alone."""


class Named(meta.Model, frozen=True):
    """A gate; its name is all that is told."""

    name: str = ""


class Spec(meta.Model, frozen=True):
    """The fields of a pod's spec that are read here."""

    scheduling_gates: list[Named] | None = None


class Pod(meta.Object, frozen=True):
    """A pod, as far as it is read here."""

    spec: Spec | None = None


_POD = msgspec.json.Decoder(Pod)


def find(objects: Iterable[models.Raw]) -> dict[str, tuple[str, ...]]:
    """Notes on pods, by `namespace/name`. Objects that cannot be read have none."""
    notes: dict[str, tuple[str, ...]] = {}
    for raw in objects:
        try:
            _look(models.as_json(raw), notes)
        except (errors.InvalidObject, msgspec.MsgspecError):
            continue
    return notes


def _look(raw: models.Json, notes: dict[str, tuple[str, ...]]) -> None:
    text = raw if isinstance(raw, bytes) else raw.encode() if isinstance(raw, str) else bytes(raw)
    if _TELLING not in text:
        return
    header = models.read_header(text)
    if header.is_list:
        notes.update(find(header.items or ()))
        return
    pod = _POD.decode(text)
    if pod.spec is not None and (found := _tell(pod.spec)):
        notes[pod.meta.key] = found


def _tell(spec: Spec) -> tuple[str, ...]:
    if not spec.scheduling_gates:
        return ()
    names = ", ".join(gate.name for gate in spec.scheduling_gates)
    return (f"not scheduled while it has the gate {names}",)
