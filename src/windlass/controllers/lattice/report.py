"""report: what is said of a LatticeCluster, as the API spells it. Pure."""

import dataclasses
from typing import Any

from windlass.controllers.lattice import facts

Json = dict[str, Any]


def patch(before: facts.Status, after: facts.Status) -> Json:
    """The merge patch from one status to the other; empty if they say the same."""
    changed: Json = {}
    if after.observed_generation != before.observed_generation:
        changed["observed_generation"] = after.observed_generation
    pools: Json = {name: None for name in before.pools if name not in after.pools}
    pools.update(
        {name: dataclasses.asdict(each) for name, each in after.pools.items() if before.pools.get(name) != each}
    )
    if pools:
        changed["worker_pools"] = pools
    return {"status": changed} if changed else {}
