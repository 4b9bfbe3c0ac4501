"""Events of health: nodes that did not come, and a cluster that is in no state to be judged."""

from collections.abc import Iterator

from windlass.autoscaler.report import words
from windlass.engine import following
from windlass.engine.repairs import Stop
from windlass.engine.story import Story
from windlass.kube import durations
from windlass.kube.events import WARNING, About, Occurrence


def tell(story: Story, status: About, now_s: float) -> Iterator[Occurrence]:
    """What a loop found wrong, before it does anything about it."""
    for failure in story.health.failures:
        yield _tell_failure(failure, status, now_s)
    stop = story.repairs.stop
    if said := words.not_actionable(stop):
        if stop is not Stop.NO_READY_NODES_YET:
            yield Occurrence(status, WARNING, "ClusterUnhealthy", said)
    elif not story.health.verdict.is_healthy:
        yield Occurrence(status, WARNING, "ClusterUnhealthy", words.UNHEALTHY)


def _tell_failure(failure: following.Failure, status: About, now_s: float) -> Occurrence:
    if failure.error.code == following.TIMEOUT:
        took = durations.spell(now_s - failure.requested_s)
        message = f"Nodes added to group {failure.group} failed to register within {took}"
        return Occurrence(status, WARNING, "ScaleUpTimedOut", message)
    message = (
        f"Failed adding {failure.nodes} nodes to group {failure.group} due to {words.error_code(failure.error)}; "
        f"source errors: {failure.error.message}"
    )
    return Occurrence(status, WARNING, "ScaleUpFailed", message)
