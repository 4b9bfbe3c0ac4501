"""Hooks: what is asked before a MachinePool is stored, at the paths at which Cluster API's manager has them."""

from collections.abc import Mapping

from windlass.controllers.machine_pool import webhook
from windlass.controllers.webhooks import reviewing


def default(asked: reviewing.Asked) -> reviewing.Answer:
    try:
        return reviewing.Answer(made=webhook.default(asked.found, asked.before))
    except webhook.Refused as refused:
        return reviewing.Answer(str(refused))


def validate(asked: reviewing.Asked) -> reviewing.Answer:
    return reviewing.Answer("; ".join(webhook.validate(asked.found, asked.before)))


HOOKS: Mapping[str, reviewing.Hook] = {
    f"/{verb}-cluster-x-k8s-io-{version}-machinepool": hook
    for version in ("v1beta1", "v1beta2")
    for verb, hook in (("mutate", default), ("validate", validate))
}
