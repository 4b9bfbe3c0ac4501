"""A cluster that is looked at once: everything is read, nothing is written."""

from tests.providers.clusterapi import bed
from windlass import clock
from windlass.autoscaler import once, process
from windlass.autoscaler.wiring import Wiring
from windlass.engine.settings import Settings
from windlass.explain import cluster, look
from windlass.providers import clusterapi

NOW_S = 1_700_000_000.0


def test_a_cluster_is_read_and_nothing_is_written() -> None:
    time = clock.Virtual(NOW_S)
    found = bed.Bed(time, "v1beta2", clusterapi.Config())

    async def main() -> once.Moment:
        servers = process.Servers(found.carrier, found.carrier)
        return await once.look(servers, Settings(), Wiring(), clusterapi.Config(), time)

    told = cluster.describe(look.take(*time.run(main())))
    assert (told.nodes, told.pending, told.loop, told.steps) == (0, 0, 0, ())
    assert {call.method for call in found.carrier.sent} == {"GET"}
