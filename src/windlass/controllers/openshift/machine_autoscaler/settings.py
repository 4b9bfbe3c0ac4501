"""Settings of the MachineAutoscaler controller."""

from dataclasses import dataclass

from windlass.controllers.openshift import names


@dataclass(frozen=True, slots=True)
class Settings:
    """What may be done otherwise."""

    namespace: str = names.MACHINE_API_NAMESPACE
    """Where MachineAutoscalers are."""
    release_version: str = ""
    """The version of OpenShift whose feature gates count; empty: what is on in every version that is listed."""
    resync_s: float = 600.0
    """Every MachineAutoscaler is looked at this often, even if nothing seems to have changed."""
