"""Prospects: what a new node of each group would do for pending pods: which of them it takes, how many nodes it needs.

Shapes that mind nothing but resources and the node's own facts (`placing.is_plain`) are judged for all groups at once.
What was found for them holds for all rounds of a loop, whatever else is placed meanwhile, and so do estimates in which
no others take part.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from windlass.engine import facts, placing, predicates, shapes
from windlass.engine.estimator import binpacking, limits, plain
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.scale_up.templates import GroupTemplate
from windlass.engine.snapshot import Snapshot

Answers = dict[int, tuple[str, ...]]
"""By shape: the reasons why a new node would not take it; none if it would."""

_Asked = tuple[str, limits.Limit, tuple[tuple[int, int], ...]]
"""Group, limit, and (shape, number) of the pods."""


class Prospects:
    """Answers about one snapshot, which is left as it was found, and the groups' templates, which never change."""

    def __init__(self, snapshot: Snapshot, templates: Mapping[str, GroupTemplate], config: FilterConfig) -> None:
        self._snapshot, self._config = snapshot, config
        self._templates = {
            group: binpacking.Template(one.node, tuple(snapshot.shape_of(pod) for pod in one.pods))
            for group, one in templates.items()
        }
        self._answers: dict[str, Answers] = {group: {} for group in templates}
        self._estimates: dict[_Asked, binpacking.Estimate] = {}

    # Which pods

    def pod(self, row: int) -> facts.Pod:
        """The pod of a row of the snapshot."""
        return self._snapshot.pod(row)

    def ask(self, groups: Sequence[str], wanted: Iterable[shapes.Shape]) -> dict[str, Answers]:
        """What a new, empty node of each of these groups would say to each of these shapes."""
        alone: list[shapes.Shape] = []
        together: list[shapes.Shape] = []
        for shape in wanted:
            (together if placing.is_plain(self._snapshot, shape, self._config) else alone).append(shape)
        unknown = [shape for shape in together if any(shape.id not in self._answers[group] for group in groups)]
        repelled = self._judge_together(groups, unknown) if unknown else []
        known = [shape.id for shape in together if shape not in repelled]
        found: dict[str, Answers] = {}
        for group in groups:
            answers = self._answers[group]
            found[group] = {number: answers[number] for number in known}
            if alone or repelled:
                found[group] |= self._judge_alone(group, (*alone, *repelled))
        return found

    def _judge_together(self, groups: Sequence[str], wanted: Sequence[shapes.Shape]) -> list[shapes.Shape]:
        """Judge shapes for all these groups at once, and keep what is found; return those that others' pods repel."""
        snapshot, repelled = self._snapshot, []
        snapshot.fork()
        try:
            rows = [self._append(group) for group in groups]
            for shape in wanted:
                if placing.is_repelled(snapshot, shape):
                    repelled.append(shape)
                    continue
                for group, answer in zip(groups, self._explain(shape, rows), strict=True):
                    self._answers[group][shape.id] = answer
        finally:
            snapshot.revert()
        return repelled

    def _judge_alone(self, group: str, wanted: Iterable[shapes.Shape]) -> Answers:
        """Judge shapes for one group; other groups' new nodes would be domains that there are not."""
        self._snapshot.fork()
        try:
            row = self._append(group)
            return {shape.id: self._explain(shape, [row])[0] for shape in wanted}
        finally:
            self._snapshot.revert()

    def _append(self, group: str) -> int:
        template = self._templates[group]
        (row,) = self._snapshot.append(template.node, [template.node.name])
        for shape in template.pods:
            self._snapshot.place(shape, row)
        return row

    def _explain(self, shape: shapes.Shape, rows: Sequence[int]) -> list[tuple[str, ...]]:
        """The reasons of each row; the filters are asked for reasons only where one refuses."""
        snapshot, config = self._snapshot, self._config
        feasible = predicates.feasible(snapshot, shape, config)[list(rows)].tolist()
        if all(feasible):
            return [()] * len(rows)
        judged = predicates.judge(snapshot, shape, config)
        return [() if (refusal := judged[row]) is None else tuple(refusal.texts) for row in rows]

    # How many nodes

    def estimate(
        self,
        group: str,
        pods: Sequence[binpacking.PodGroup],
        limiter: limits.Limiter,
        fastpath: bool = False,
        scatter: np.random.Generator | None = None,
    ) -> binpacking.Estimate:
        """How many nodes of the group these pods need. A new node takes each of them."""
        template = self._templates[group]
        if fastpath or not self._are_plain(template, pods):
            return binpacking.estimate(
                self._snapshot, pods, template, limiter, self._config, fastpath=fastpath, scatter=scatter
            )
        if scatter is not None:
            return plain.estimate(self._snapshot, pods, template, limiter, self._config, scatter)
        asked = (group, limiter.limit, tuple((one.shape.id, one.count) for one in pods))
        if asked not in self._estimates:
            self._estimates[asked] = plain.estimate(self._snapshot, pods, template, limiter, self._config)
        return self._estimates[asked]

    def _are_plain(self, template: binpacking.Template, pods: Sequence[binpacking.PodGroup]) -> bool:
        if any(shape.spec.anti_affinity for shape in template.pods):
            return False  # new nodes would repel pods, or others
        return all(placing.is_plain(self._snapshot, one.shape, self._config) for one in pods)
