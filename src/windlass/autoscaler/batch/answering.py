"""Answering ProvisioningRequests: conditions are written over the version that they were decided on, or not at all."""

from typing import Any

from windlass.engine import plan
from windlass.engine.provisioning.request import Condition
from windlass.kube import client, errors, prepare, resources, times
from windlass.kube.models import autoscaling


async def answer(api: client.Client, order: plan.SetConditions) -> autoscaling.ProvisioningRequest:
    """Write the conditions. `errors.Conflict` if someone was faster: the next loop decides on what is there then."""
    patch = {
        "metadata": {"resourceVersion": order.version},
        "status": {"conditions": [spell(one) for one in order.conditions]},
    }
    return await api.merge_patch(
        resources.PROVISIONING_REQUESTS, order.name, patch, order.namespace, subresource="status"
    )


async def delete(api: client.Client, order: plan.DeleteRequest) -> None:
    """Delete the request, unless it is gone or another one of its name has come."""
    try:
        await api.delete(resources.PROVISIONING_REQUESTS, order.name, order.namespace, prepare.Deletion(uid=order.uid))
    except (errors.NotFound, errors.Conflict):
        return


def spell(said: Condition) -> dict[str, Any]:
    spelled: dict[str, Any] = {
        "type": said.type,
        "status": said.status,
        "reason": said.reason,
        "message": said.message,
        "lastTransitionTime": times.spell(said.since_s),
    }
    return spelled | ({} if said.observed_generation is None else {"observedGeneration": said.observed_generation})
