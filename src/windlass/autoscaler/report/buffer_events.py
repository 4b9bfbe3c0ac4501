"""Events of CapacityBuffers: whether their pods triggered a scale-up. The words are Cluster Autoscaler's, but that a
reason which many pods share is given once.
"""

from collections.abc import Iterator

from windlass.autoscaler.report import words
from windlass.autoscaler.report.pod_events import spell_reasons
from windlass.engine.buffers.scale_ups import BufferScaleUp
from windlass.engine.observation import Observation
from windlass.engine.scale_up.proposing import Proposal, Result
from windlass.engine.story import Story
from windlass.kube.events import NORMAL, About, Occurrence


def _about(one: BufferScaleUp) -> Iterator[About]:
    owner = one.like.owner
    if owner is not None:
        yield About(owner.api_version, owner.kind, owner.name, one.like.namespace, owner.uid)


def tell_helped(story: Story) -> Iterator[tuple[Proposal, list[Occurrence]]]:
    """To each buffer whose pods a round helps, what was raised in it."""
    for one in story.buffers:
        if one.proposal.result is Result.SUCCESSFUL and not one.remaining:
            raised = words.increases(one.proposal.increases)
            message = f"capacity buffer {one.pods} fake pods triggered scale-up: {raised}"
            yield one.proposal, [Occurrence(about, NORMAL, "TriggeredScaleUp", message) for about in _about(one)]


def tell_left(seen: Observation, story: Story) -> Iterator[Occurrence]:
    """To each buffer with pods that no group helps, why."""
    existing = frozenset(group.id for group in seen.groups if group.exists)
    for one in story.buffers:
        if not one.remaining or one.proposal.result in (Result.SUCCESSFUL, Result.ERROR):
            continue
        reasons = dict.fromkeys(spell_reasons(one.proposal, alike, existing) for alike in one.remaining)
        message = f"capacity buffer {one.pods} fake pods didn't trigger scale-up: {','.join(reasons)}"
        yield from (Occurrence(about, NORMAL, "NotTriggerScaleUp", message) for about in _about(one))
