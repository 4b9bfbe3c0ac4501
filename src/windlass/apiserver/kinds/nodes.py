"""Nodes: whoever registers one posts its status too, and taints are unique by key and effect."""

from windlass.apiserver import names, status
from windlass.apiserver.kinds.strategy import Errors, Strategy
from windlass.apiserver.types.model import Json

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class Nodes(Strategy):
    """Nodes."""

    keeps_posted_status = True

    def default(self, obj: Json) -> None:
        if "capacity" in obj["status"]:
            obj["status"].setdefault("allocatable", dict(obj["status"]["capacity"]))

    def validate(self, obj: Json) -> Errors:
        # The real server says metadata.taints, too.
        return _validate_taints(obj["spec"].get("taints") or [], "metadata.taints")

    def validate_update(self, new: Json, old: Json) -> Errors:
        errors = self.validate(new)
        for name, said in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
            before = old["spec"].get(name)
            if before and new["spec"].get(name) != before:
                why = f'node updates may not change {said} except from "" to valid'
                errors.append(status.forbidden_field(f"spec.{name}", why))
        return errors


def _validate_taints(taints: list[Json], at: str) -> Errors:
    errors: Errors = []
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        errors += [status.wrong(f"{at}[{i}].key", key, why) for why in names.check_key(key)]
        errors += [status.wrong(f"{at}[{i}].value", value, why) for why in names.check_value(value)]
        if not effect:
            errors.append(status.required(f"{at}[{i}].effect"))
        elif effect not in _EFFECTS:
            errors.append(status.unsupported(f"{at}[{i}].effect", effect, _EFFECTS))
        if (key, effect) in seen:
            said = "taints must be unique by key and effect pair"
            # The real one shows the taint as Go has it, every field in capitals.
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            errors.append(status.FieldError("FieldValueDuplicate", f"{at}[{i}]", shown, said))
        seen.add((key, effect))
    return errors
