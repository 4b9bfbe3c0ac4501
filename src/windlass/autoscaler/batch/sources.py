"""Sources: which objects of autoscaling.x-k8s.io are followed, and whose status is kept, as the flags say."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from windlass import clock
from windlass.autoscaler.batch import buffer_keeping, following, quota_keeping
from windlass.engine import facts
from windlass.engine.settings import Settings
from windlass.kube import client


@dataclass(frozen=True, slots=True)
class Sources:
    """None where the flags say that there is nothing to follow."""

    requests: following.Requests | None = None
    quotas: quota_keeping.Quotas | None = None
    buffers: buffer_keeping.Buffers | None = None


def choose(settings: Settings) -> Sources:
    """What there is to follow. A loop sees by these whatever it decides on besides pods, nodes and groups."""
    wanted = settings.injection
    follows_buffers = wanted.capacity_buffer_controller_enabled or wanted.capacity_buffer_pod_injection_enabled
    return Sources(
        following.Requests() if settings.provisioning_requests.enable_provisioning_requests else None,
        quota_keeping.Quotas() if settings.limits.capacity_quotas_enabled else None,
        buffer_keeping.Buffers() if follows_buffers else None,
    )


@contextlib.asynccontextmanager
async def keeping_statuses(
    api: client.Client,
    known: Sources,
    nodes_now: Callable[[], Sequence[facts.Node]],
    settings: Settings,
    time: clock.Clock,
) -> AsyncIterator[None]:
    """Meanwhile the status of quotas and buffers is kept. Whoever changes nothing has no use for this."""
    every_s, tasks = settings.scale_down.scan_interval_s, list[asyncio.Task[None]]()
    if known.quotas is not None:
        tasks.append(asyncio.create_task(quota_keeping.keep_on(api, known.quotas, nodes_now, time, every_s)))
    if known.buffers is not None and settings.injection.capacity_buffer_controller_enabled:
        buffers = buffer_keeping.keep_on(api, known.buffers, settings.injection, time, every_s)
        tasks.append(asyncio.create_task(buffers))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
