"""Replica count: a pod moves only if its controller exists, and wants enough replicas.

Only with `skip_custom_controllers`, and only where controllers are listed. Which controllers are looked up, by the
owner's kind:

    ReplicationController, ReplicaSet   of any API group; must exist and want `min_replicas`
    Job                                 of any API group; must exist
    StatefulSet, DaemonSet              of group `apps`; must exist. Others of these names are someone else's

A pod annotated as a DaemonSet's, but owned by something else, is not asked for its owner.
"""

from windlass.engine import facts, pod_traits
from windlass.engine.drain import outcome
from windlass.engine.drain.context import Context

RULE = "ReplicaCount"
APPS = "apps"


def decide(pod: facts.Pod, context: Context) -> outcome.Outcome | None:
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
    if owner.api_version.count("/") > 1:  # not an API version: nobody can tell what owns the pod
        return False
    if owner.kind == "ReplicationController":
        return True
    if pod_traits.is_daemonset(pod):
        return owner.kind == "DaemonSet" and _group(owner) == APPS
    if owner.kind == "StatefulSet":
        return _group(owner) == APPS
    return owner.kind in ("Job", "ReplicaSet")


def _group(owner: facts.Owner) -> str:
    """`apps` of `apps/v1`, nothing of `v1`."""
    group, slash, _ = owner.api_version.partition("/")
    return group if slash else ""


def _not_found(owner: facts.Owner) -> outcome.Outcome:
    saying = "is owned by {} {}, which does not exist: nothing would start the pod again"
    return outcome.block(RULE, outcome.Reason.CONTROLLER_NOT_FOUND, saying, owner.kind, owner.name)


def _too_few(controller: facts.Controller, minimum: int) -> outcome.Outcome:
    saying = "is one of {} replicas that {} {} asks for, and pods of fewer than {} are not moved"
    values = (controller.replicas, controller.kind, controller.name, minimum)
    return outcome.block(RULE, outcome.Reason.MIN_REPLICAS_REACHED, saying, *values)
