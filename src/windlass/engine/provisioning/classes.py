"""Classes: which requests are whose business.

Check-capacity requests may name the instance that should handle them, in a parameter or, as it was done before, as a
prefix of their class. An instance that has a name handles those that name it and nothing else.
"""

from windlass.engine.provisioning.request import Request

CHECK_CAPACITY = "check-capacity.autoscaling.x-k8s.io"
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"

INSTANCE = "processorInstance"
"""Parameter: the name of the instance that should handle a check-capacity request."""


def is_ours(request: Request, instance: str) -> bool:
    """Is the request to be handled by the instance of this name (empty: by the one without)?"""
    if request.class_name == ATOMIC:
        return not instance
    return is_check_capacity(request, instance)


def is_check_capacity(request: Request, instance: str) -> bool:
    """Is it ours, and one that asks only whether there is room?"""
    wanted = request.parameters.get(INSTANCE, "")
    if wanted or not instance:
        return wanted == instance and request.class_name == CHECK_CAPACITY
    return request.class_name == instance + CHECK_CAPACITY
