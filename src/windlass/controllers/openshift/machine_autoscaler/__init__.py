"""machine_autoscaler: MachineAutoscalers, which say within which bounds a MachineSet is scaled.

Bounds, the owner, and what an empty MachineSet promises go to the MachineSet that holds, as annotations; whoever
mirrors MachineSets carries them over. `docs/openshift.md` says what an administrator sees of it.
"""

from windlass.controllers.openshift.machine_autoscaler.controller import make

__all__ = ["make"]
