"""Local storage: what a pod has written to its node's disk (hostPath, emptyDir) would be lost with the node.

Only with `skip_local_storage`. An emptyDir in memory does not count, nor do volumes named, separated by commas, in
the annotation `safe-to-evict-local-volumes`. Names are compared as written: a blank after a comma is part of one.
"""

from windlass.engine import facts
from windlass.engine.drain import outcome
from windlass.engine.drain.context import Context

SAFE_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"


def decide(pod: facts.Pod, context: Context) -> outcome.Outcome | None:
    if not pod.spec.volumes or not context.options.skip_local_storage:
        return None
    named = pod.annotations.get(SAFE_VOLUMES)
    safe = named.split(",") if named else []
    for volume in pod.spec.volumes:
        if _is_local(volume) and volume.name not in safe:
            saying = "keeps data on its node in volume {} ({})"
            return outcome.block(
                "LocalStorage", outcome.Reason.LOCAL_STORAGE_REQUESTED, saying, volume.name, volume.source
            )
    return None


def _is_local(volume: facts.Volume) -> bool:
    return volume.source == "hostPath" or (volume.source == "emptyDir" and volume.medium != "Memory")
