"""Serving: which version of an API a server has."""

import logging
from collections.abc import Sequence

from windlass.kube import client, discovery, errors

_RETRY_S = 5.0
_log = logging.getLogger(__name__)


async def choose_version(api: client.Client, group: str, versions: Sequence[str]) -> str:
    """The apiVersion of the first of these that the server has, as soon as it has one: it may come later."""
    while True:
        try:
            served = await discovery.list_versions(api, group)
        except errors.KubeError as error:
            _log.warning("%s: %s", group, error)
            served = []
        for version in versions:
            if f"{group}/{version}" in served:
                return f"{group}/{version}"
        await api.clock.sleep(_RETRY_S)
