"""Evictions: pods asked to leave, and what the answers mean.

201            it leaves
404            it is gone
409            of the pod's uid: another pod has its name by now, so it is gone; of anything else, such as a budget that
               others were charging at the same time: not now
429            a budget says not now; the message says which
500            several budgets cover it, or one that cannot be read: someone must change them
"""

import math

from windlass.engine import plan
from windlass.kube import client, errors, prepare

_PODS = frozenset({"pod", "pods"})
"""How a Status may name the kind of a pod."""


async def evict(api: client.Client, order: plan.Evict) -> None:
    """Ask a pod to leave. KubeError if it may not, or nobody could be asked."""
    grace_s = None if order.grace_s is None else math.ceil(order.grace_s)
    try:
        await api.evict(order.name, order.namespace, prepare.Deletion(uid=order.uid, grace_s=grace_s))
    except errors.NotFound:
        return
    except errors.Conflict as error:
        if not _is_about_uid(error):
            raise


def _is_about_uid(error: errors.Conflict) -> bool:
    """Did the pod of this name turn out to be another one?"""
    kind = (error.status.details.kind if error.status.details else None) or ""
    return kind.lower() in _PODS and "UID" in (error.status.message or "")
