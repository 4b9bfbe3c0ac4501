"""The snapshot: a cluster as columns, changed in place and undone in reverse.

    fork ──▶ place, lift, append, retire … ──▶ commit     keep it (the outer fork, if any, can still undo it)
                                           └─▶ revert     as if it had never been

One layer on another, each in a file: `columns` count what is where, `forking` undoes it, `moving` tries things out, and
the snapshot itself takes in facts. `footprints` is what pods take of nodes, `copies` what a scratch puts back. Nothing
here knows what a decision is. Others use `Snapshot` and `build`.
"""

from windlass.engine.snapshot.moving import asks_for_devices
from windlass.engine.snapshot.snapshot import FINISHED, Snapshot, build

__all__ = ["FINISHED", "Snapshot", "asks_for_devices", "build"]
