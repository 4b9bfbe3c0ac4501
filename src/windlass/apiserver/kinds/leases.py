"""Leases: a PUT may create one, and must say which version it replaces."""

from windlass.apiserver import status
from windlass.apiserver.kinds.strategy import Errors, Strategy
from windlass.apiserver.types.model import Json


class Leases(Strategy):
    """Leases."""

    creates_on_update = True
    needs_version_to_update = True

    def validate(self, obj: Json) -> Errors:
        spec = obj["spec"]
        errors: Errors = []
        if (duration_s := spec.get("leaseDurationSeconds")) is not None and duration_s <= 0:
            errors.append(status.wrong("spec.leaseDurationSeconds", duration_s, "must be greater than 0"))
        if (transitions := spec.get("leaseTransitions")) is not None and transitions < 0:
            said = "must be greater than or equal to 0"
            errors.append(status.wrong("spec.leaseTransitions", transitions, said))
        return errors
