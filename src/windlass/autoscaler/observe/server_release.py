"""Which release of kube-scheduler a cluster has: the flag's or, without one, that of its API server."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from windlass import releases
from windlass.kube import client, errors, transport

_log = logging.getLogger(__name__)
_RETRY_S = 2.0
"""How long an API server that does not answer is left alone."""


class _Version(msgspec.Struct):
    git_version: str = msgspec.field(default="", name="gitVersion")


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user says of the scheduler."""

    version: str = ""
    """Empty: the API server is asked."""
    gates: Mapping[str, bool] = field(default_factory=dict)

    def choose(self, server_version: str) -> releases.Release:
        """The release, with its gates, for a server that says that it is of this version."""
        release = releases.KNOWN.get(self.version) or releases.nearest(server_version)
        return releases.with_gates(release, self.gates)


async def find(api: client.Client, choice: Choice, report: Callable[[errors.KubeError], None]) -> releases.Release:
    """The release whose filters hold. Waits for the API server where that must be asked, and reports why it does."""
    server_version = "" if choice.version else await _ask(api, report)
    release = choice.choose(server_version)
    _log.info(
        "applying the filters of kube-scheduler: release=%s server=%s", release.version, server_version or "not asked"
    )
    for gate in choice.gates:
        if gate in releases.GATES and not releases.has_effect(gate, release):
            _log.warning("--feature-gates: gate=%s has no effect in release=%s", gate, release.version)
    return release


async def _ask(api: client.Client, report: Callable[[errors.KubeError], None]) -> str:
    """The version that the API server tells. One that tells none is taken for the oldest that is known."""
    request = transport.Request("GET", "/version", headers={"accept": "application/json"})
    while True:
        try:
            return msgspec.json.decode(await api.call(request), type=_Version).git_version
        except (errors.Forbidden, errors.NotFound, msgspec.MsgspecError) as error:
            _log.warning("cannot read the version of the API server: %s", error)
            return ""
        except errors.KubeError as error:
            _log.warning("cannot read the version of the API server, retrying in %gs: %s", _RETRY_S, error)
            report(error)
        await api.clock.sleep(_RETRY_S)
