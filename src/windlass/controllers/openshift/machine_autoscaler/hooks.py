"""Hooks: what is asked before a MachineAutoscaler is stored. Whether its target is there is for later."""

from collections.abc import Mapping

from windlass.controllers.openshift.machine_autoscaler import observe
from windlass.controllers.openshift.machine_autoscaler.decide import validation
from windlass.controllers.webhooks import reviewing


def validate(asked: reviewing.Asked) -> reviewing.Answer:
    found = observe.read_autoscaler({"metadata": {"name": ""}, "spec": asked.found.get("spec") or {}})
    return reviewing.Answer(validation.explain(found.min, found.max))


HOOKS: Mapping[str, reviewing.Hook] = {"/validate-machineautoscalers": validate}
