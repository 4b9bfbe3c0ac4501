"""Shapes: pods that no filter can tell apart are one shape, judged once.

A shape is a pod's namespace, its spec, whether it is terminating, and those of its labels that some selector in the
cluster can see. Labels that nobody selects on (a pod's own name, a hash per replica) are left out of the key, or every
pod of a StatefulSet would be a shape of its own. When a selector with a new key appears, the snapshot re-keys.

A profile is a shape without its spec: all that selectors can see. Whether a selector matches is judged per profile.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from windlass.engine import dtypes, interning
from windlass.engine.facts import PodSpec

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """What selectors can see of a pod."""

    namespace: str
    labels: Labels
    """Visible labels, sorted by key."""
    terminating: bool

    @property
    def label_map(self) -> dict[str, str]:
        return dict(self.labels)


@dataclass(frozen=True, slots=True)
class Shape:
    """What filters can see of a pod. `id` is its number in the table that made it."""

    id: int
    profile_id: int
    profile: Profile
    spec: PodSpec

    @property
    def namespace(self) -> str:
        return self.profile.namespace


class ShapeTable:
    """All shapes met so far, and the label keys that make a difference."""

    def __init__(self) -> None:
        self.visible: set[str] = set()
        self.profiles: interning.Index[Profile] = interning.Index()
        self._ids: dict[tuple[int, PodSpec], int] = {}
        self._shapes: list[Shape] = []
        self._specs: set[PodSpec] = set()

    def __len__(self) -> int:
        return len(self._shapes)

    def __getitem__(self, number: int) -> Shape:
        return self._shapes[number]

    def intern(self, namespace: str, labels: Mapping[str, str], spec: PodSpec, terminating: bool = False) -> Shape:
        """The shape of a pod. `visible` must already hold the keys of the spec's own selectors."""
        visible = self.visible
        kept = tuple(sorted((key, value) for key, value in labels.items() if key in visible))
        profile_id = self.profiles.intern(Profile(namespace, kept, terminating))
        number = self._ids.get((profile_id, spec))
        if number is None:
            number = self._ids[profile_id, spec] = len(self._shapes)
            self._shapes.append(Shape(number, profile_id, self.profiles[profile_id], spec))
        return self._shapes[number]

    def keep(self, used: dtypes.Mask) -> tuple[dtypes.Ids, dtypes.Ids]:
        """Forget all shapes but these, and their profiles. The new numbers of shapes and of profiles, -1 for none."""
        kept = list(itertools.compress(self._shapes, used.tolist()))
        seen = np.zeros(len(self.profiles), bool)
        seen[[shape.profile_id for shape in kept]] = True
        profiles = self.profiles.keep(seen)
        of_kept = profiles[[shape.profile_id for shape in kept]].tolist()
        self._shapes = [
            Shape(number, profile_id, shape.profile, shape.spec)
            for number, (profile_id, shape) in enumerate(zip(of_kept, kept, strict=True))
        ]
        self._ids = {(shape.profile_id, shape.spec): shape.id for shape in self._shapes}
        self._specs = {shape.spec for shape in self._shapes}
        return interning.number_anew(used), profiles

    def unseen_keys(self, spec: PodSpec) -> set[str]:
        """Label keys that this spec's selectors can see and that no shape holds yet."""
        if spec in self._specs:
            return set()
        unseen = selector_keys(spec) - self.visible
        if not unseen:
            self._specs.add(spec)
        return unseen


def selector_keys(spec: PodSpec) -> set[str]:
    """The label keys that a pod's own spread and affinity terms look at."""
    selectors = [constraint.selector for constraint in spec.spread]
    selectors += [term.selector for term in (*spec.affinity, *spec.anti_affinity)]
    return {key for selector in selectors if selector is not None for key in selector.keys}
