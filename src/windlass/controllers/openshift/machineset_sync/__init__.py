"""machineset_sync: the two MachineSets of one name are kept equal, whichever API holds, and authority moves between
them.

    conversion   an object of one API in the other's words: pure
    decide       what has to be written of a pair, and why: pure
    watches      what is looked at, and which pairs a change concerns
    act          the writing, each step only over what was looked at
    controller   what happens to a pair that is woken

Replicas have one rule of their own (`decide.replicas`): the cluster autoscaler scales MachineSets of Cluster API, and
what it writes holds even where Cluster API does not. `docs/openshift.md` says what administrators see of it.
"""

from windlass.controllers.openshift.machineset_sync.controller import make

__all__ = ["make"]
