"""A world that travels: everything that a run needs, in one piece, so that whoever plays it needs no file."""

import functools
import hashlib
import pickle
import zlib
from dataclasses import dataclass

import msgspec

from windlass.simulator.scenario import model
from windlass.simulator.trace.reading import Trace


@dataclass(frozen=True, slots=True)
class World:
    """A scenario as it is without further flags, and the recorded workload in it, if any."""

    scenario: model.Scenario
    trace: Trace | None = None


def pack(world: World) -> bytes:
    return zlib.compress(pickle.dumps(world, protocol=5))


@functools.lru_cache(maxsize=2)
def unpack(packed: bytes) -> World:
    """What was packed by ourselves: bytes of others never come here."""
    found: World = pickle.loads(zlib.decompress(packed))
    return found


def digest(world: World) -> str:
    """The same for worlds that say the same."""
    return hashlib.sha256(msgspec.json.encode(world, enc_hook=_plain)).hexdigest()


def _plain(value: object) -> object:
    if isinstance(value, model.Timing):
        return value.delay
    if isinstance(value, float):
        return float(value)
    raise NotImplementedError(type(value))
