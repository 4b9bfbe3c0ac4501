"""machine_pool: the MachinePool controller of Cluster API.

A MachinePool stands for instances that an infrastructure provider manages as one: the provider names them, this
controller finds their Nodes, says how many there are and how they fare, and cleans up behind those that go.

`docs/machine-pool.md` says what it does, and where it differs from Cluster API's own controller. `decide` is pure.
"""

from windlass.controllers.machine_pool.controller import make

__all__ = ["make"]
