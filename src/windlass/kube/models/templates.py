"""Templates: pods yet to be made."""

from __future__ import annotations

import msgspec

from windlass.kube.models import pods
from windlass.kube.models.meta import Model, Object, ObjectMeta


class PodTemplateSpec(Model, frozen=True):
    metadata: ObjectMeta | None = None
    spec: msgspec.Raw = pods.NO_SPEC
    """As it came, like that of a pod; `pods.decode_spec` reads it."""


class PodTemplate(Object, frozen=True):
    template: PodTemplateSpec | None = None
