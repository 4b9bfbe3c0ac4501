"""The status of a recording: what was published at a time of it, with everything that was decided before."""

from pathlib import Path

from windlass import errors
from windlass.autoscaler.published import making
from windlass.autoscaler.published.model import Status
from windlass.autoscaler.published.publisher import Publisher
from windlass.autoscaler.recording import reading, replay
from windlass.engine.advance import Advanced
from windlass.engine.decide import Decision


def read(path: Path, at_s: float = float("inf")) -> Status:
    """How everything stood at that time; without one, at the end. InvalidInput if nothing was decided by then."""
    now_s, number = 0.0, replay.find_last(path, at_s)
    published = Publisher(lambda: now_s, making.Setting("recorded", path.name))
    for turn in replay.turns(reading.Recording(path)):
        now_s = turn.step.now_s
        match turn.done:
            case Decision() as decision:
                published.decided(decision.evaluated, decision, now_s)
                if turn.step.number == number:
                    published.look(decision.evaluated, decision, now_s)
                    published.end()
                    break
            case Advanced() as advanced:
                published.moved(turn.step.seen, advanced, now_s)
    if published.status is None:
        raise errors.InvalidInput(f"{path}: the decision could not be made again; windlass replay tells why")
    return published.status
