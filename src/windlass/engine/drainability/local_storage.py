"""Drain rule on local storage: data in hostPath and emptyDir volumes would be lost with the node.

Only with `skip_local_storage`. An emptyDir in memory does not count, nor do volumes named, separated by commas, in
the annotation `safe-to-evict-local-volumes`. Names are compared as written: a blank after a comma is part of the
name.
"""

from windlass.engine.drainability.context import DrainContext
from windlass.engine.model import drainability, facts

SAFE_TO_EVICT_LOCAL_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"


def check_local_storage(pod: facts.Pod, context: DrainContext) -> drainability.DrainabilityStatus | None:
    if not pod.spec.volumes or not context.options.skip_local_storage:
        return None
    named = pod.annotations.get(SAFE_TO_EVICT_LOCAL_VOLUMES)
    safe = named.split(",") if named else []
    for volume in pod.spec.volumes:
        if _is_local(volume) and volume.name not in safe:
            saying = "keeps data on its node in volume {} ({})"
            return drainability.blocked_status(
                "LocalStorage",
                drainability.BlockingPodReason.LOCAL_STORAGE_REQUESTED,
                saying,
                volume.name,
                volume.source,
            )
    return None


def _is_local(volume: facts.Volume) -> bool:
    return volume.source == "hostPath" or (volume.source == "emptyDir" and volume.medium != "Memory")
