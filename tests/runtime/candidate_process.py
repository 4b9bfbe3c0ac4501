"""A candidate that is a process of its own: `python -m tests.runtime.candidate_process SERVER IDENTITY FILE`.

Writes down every moment at which it led, on the clock that all processes share.
"""

import asyncio
import contextlib
import sys
import time

from windlass import clock
from windlass.kube import client, http_transport
from windlass.runtime.leader_election import LeaderElectionSettings, LeaderElector, LeadershipLost

LIMITS = LeaderElectionSettings(lease_s=2, renew_deadline_s=1.2, retry_s=0.1)


async def _lead() -> None:
    await asyncio.Event().wait()


async def main(server: str, identity: str, path: str) -> None:
    api = client.Client(http_transport.HttpTransport(server), clock.RealClock(), client.ClientSettings(qps=0))
    election = LeaderElector(api, "default", "lease", identity, LIMITS)

    async def note() -> None:
        with open(path, "a", buffering=1) as file:
            while True:
                # Read before asking: a pause between the two must not make an old answer look new.
                now_s = time.monotonic()
                if election.is_leader:
                    file.write(f"{now_s} {identity}\n")
                await asyncio.sleep(0.005)

    noting = asyncio.create_task(note())
    while not noting.done():
        with contextlib.suppress(LeadershipLost):
            await election.run(_lead)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
