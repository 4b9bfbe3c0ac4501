"""Evictions: pods asked to leave, and what the answers mean.

201            it leaves
404, or 409    it is gone, or another one has its name by now: as good as gone
429            a budget says not now; the message says which
500            several budgets cover it, or one that cannot be read: someone must change them
"""

import math

from windlass.engine import plan
from windlass.kube import client, errors, prepare


async def evict(api: client.Client, order: plan.Evict) -> None:
    """Ask a pod to leave. KubeError if it may not, or nobody could be asked."""
    grace_s = None if order.grace_s is None else math.ceil(order.grace_s)
    try:
        await api.evict(order.name, order.namespace, prepare.Deletion(uid=order.uid, grace_s=grace_s))
    except (errors.NotFound, errors.Conflict):
        return
