"""Serving: which version of Cluster API a server has."""

import logging

from windlass.controllers.worker_pools import machine_deployments
from windlass.kube import client, discovery, errors

_VERSIONS = ("v1beta2", "v1beta1")
_RETRY_S = 5.0
_log = logging.getLogger(__name__)


async def choose_version(api: client.Client) -> str:
    """The newest apiVersion of Cluster API that is known here and there, as soon as there is one."""
    group = machine_deployments.GROUP
    while True:
        try:
            served = await discovery.list_versions(api, group)
        except errors.KubeError as error:
            _log.warning("%s: %s", group, error)
            served = []
        for version in _VERSIONS:
            if f"{group}/{version}" in served:
                return f"{group}/{version}"
        await api.clock.sleep(_RETRY_S)
