"""Drain rules on the controller of a pod: it must exist and want enough replicas.

Which controllers are looked up (with `skip_custom_controllers`, where controllers are listed), by the owner's kind:

    ReplicationController, ReplicaSet   any API group; must exist and want `min_replicas`
    Job                                 any API group; must exist
    StatefulSet, DaemonSet              group `apps`; must exist. Other groups' kinds of these names are not looked up

A pod without a controller blocks: nothing would recreate it.
"""

from windlass.engine.drainability.context import DrainContext
from windlass.engine.model import drainability, facts, well_known

REPLICA_COUNT_RULE = "ReplicaCount"

APPS_GROUP = "apps"


def check_replica_count(pod: facts.Pod, context: DrainContext) -> drainability.DrainabilityStatus | None:
    if not context.options.skip_custom_controllers or context.controllers is None or pod.owner is None:
        return None
    if not _is_looked_up(pod, pod.owner):
        return None
    controller = context.controllers.get((pod.owner.kind, pod.namespace, pod.owner.name))
    if controller is None:
        return _not_found(pod.owner)
    counts = controller.kind in ("ReplicationController", "ReplicaSet")
    if counts and controller.replicas < context.options.min_replicas:
        return _too_few(controller, context.options.min_replicas)
    return None


def _is_looked_up(pod: facts.Pod, owner: facts.Owner) -> bool:
    if owner.api_version.count("/") > 1:  # not an API version: the owner's type is unknown
        return False
    if owner.kind == "ReplicationController":
        return True
    if well_known.is_daemonset(pod):
        return owner.kind == "DaemonSet" and _group(owner) == APPS_GROUP
    if owner.kind == "StatefulSet":
        return _group(owner) == APPS_GROUP
    return owner.kind in ("Job", "ReplicaSet")


def _group(owner: facts.Owner) -> str:
    """`apps` of `apps/v1`, nothing of `v1`."""
    group, slash, _ = owner.api_version.partition("/")
    return group if slash else ""


def _not_found(owner: facts.Owner) -> drainability.DrainabilityStatus:
    saying = "is owned by {} {}, which does not exist: nothing would start the pod again"
    return drainability.blocked_status(
        REPLICA_COUNT_RULE, drainability.BlockingPodReason.CONTROLLER_NOT_FOUND, saying, owner.kind, owner.name
    )


def _too_few(controller: facts.Controller, minimum: int) -> drainability.DrainabilityStatus:
    saying = "is one of {} replicas that {} {} asks for, and pods of fewer than {} are not moved"
    values = (controller.replicas, controller.kind, controller.name, minimum)
    return drainability.blocked_status(
        REPLICA_COUNT_RULE, drainability.BlockingPodReason.MIN_REPLICAS_REACHED, saying, *values
    )


REPLICATED_RULE = "Replicated"

BUILT_IN_CONTROLLERS = frozenset({"ReplicationController", "Job", "ReplicaSet", "StatefulSet"})

NOT_REPLICATED = drainability.blocked_status(
    REPLICATED_RULE,
    drainability.BlockingPodReason.NOT_REPLICATED,
    "has no controller: nothing would start it again on another node",
)


def check_replicated(pod: facts.Pod, context: DrainContext) -> drainability.DrainabilityStatus | None:
    if pod.owner is None:
        return NOT_REPLICATED
    if context.options.skip_custom_controllers and pod.owner.kind not in BUILT_IN_CONTROLLERS:
        saying = "is owned by {} {}, which is not a controller of Kubernetes' own"
        return drainability.blocked_status(
            REPLICATED_RULE, drainability.BlockingPodReason.NOT_REPLICATED, saying, pod.owner.kind, pod.owner.name
        )
    return None
