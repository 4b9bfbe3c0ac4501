"""The process: everything put together, from flags to a running autoscaler.

health and metrics are served from the start · informers follow both clusters · whoever leads decides and acts
"""

import asyncio
import contextlib
import gc
import logging
import os
import random
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from windlass import clock
from windlass.autoscaler import dry_run, endpoints, keeping, report
from windlass.autoscaler.act.actor import Actor
from windlass.autoscaler.autoscaler import Ask, Autoscaler, Think, in_thread, inline
from windlass.autoscaler.batch import sources
from windlass.autoscaler.expander_server import opening
from windlass.autoscaler.explaining import Answering
from windlass.autoscaler.observe import server_release
from windlass.autoscaler.observe.world import World
from windlass.autoscaler.published import making
from windlass.autoscaler.published.publisher import Publisher
from windlass.autoscaler.recording import journal
from windlass.autoscaler.recording.recorder import Recorder
from windlass.autoscaler.report import metrics
from windlass.autoscaler.shadow import listening
from windlass.autoscaler.shadow.shadow import Shadow
from windlass.autoscaler.wiring import Clients, Dashboard, Recording, Wiring
from windlass.engine.decide import Decision
from windlass.engine.expanders.outside import Opinion, Question
from windlass.engine.settings import Settings
from windlass.kube import access, client, prepare, transport
from windlass.providers import clusterapi
from windlass.providers.clusterapi import config as clusterapi_config
from windlass.runtime import fencing, health, leader_election, serving, shutdown, tls

_SIMULATED_WATCH_S = 86400.0
"""No watch on a server in the same process breaks off unheard; renewing it often would be most of a quiet day."""
GRACE_S = 4.0
"""For ending in good order when asked to, all in all: what is decided by then is not carried out any more."""
_NEW_OBJECTS = 20_000
"""How many the garbage collector lets come before it looks at them."""
_log = logging.getLogger(__name__)

Beside = Callable[[Dashboard, Publisher, Answering], contextlib.AbstractAsyncContextManager[None]]
"""What else is served while it runs: floors above know how."""


@contextlib.asynccontextmanager
async def _nothing(*_: object) -> AsyncIterator[None]:
    yield


async def run(chosen: Settings, wiring: Wiring, beside: Beside = _nothing) -> None:
    """Until cancelled, or until leadership is lost. InvalidInput for flags that cannot be used.

    `beside`: what serves the dashboard.
    """
    time = clock.Real()
    found = clusterapi_config.read(wiring.node_groups.node_group_auto_discovery, os.environ)
    async with connect(time, wiring.clients) as servers:
        published = Publisher(time.now_s, making.Setting(wiring.mode.name))
        process = Process(servers, chosen, wiring, found, time, published=published)
        async with beside(wiring.dashboard, published, process.autoscaler):
            await process.run()


def freeze() -> None:
    """Let the garbage collector leave alone what is there by now: half a million facts that stay for long.

    Looking through them would cost every decision a tenth of its time. So would looking after every few hundred new
    objects whether they are garbage: a large decision makes tens of thousands that stay.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])


@dataclass(frozen=True, slots=True)
class Servers:
    """The cluster whose pods are served, and the one where its Machines are; often the same."""

    workload: transport.Transport
    management: transport.Transport


@contextlib.asynccontextmanager
async def connect(time: clock.Clock, chosen: Clients) -> AsyncIterator[Servers]:
    """Both, as the flags say."""
    workload = access.find(time, chosen.kubeconfig)
    if chosen.kubernetes:
        workload = replace(workload, server=chosen.kubernetes)
    if chosen.cloud_config:
        management = access.find(time, chosen.cloud_config)
    elif chosen.clusterapi_cloud_config_authoritative and access.is_in_cluster(os.environ):
        management = access.in_cluster(time, os.environ)
    else:
        management = workload
    async with workload.connect() as one:
        if management is workload:
            yield Servers(one, one)
            return
        async with management.connect() as other:
            yield Servers(one, other)


class Process:
    """One autoscaler with all its parts, on servers that are reached already."""

    def __init__(
        self,
        servers: Servers,
        chosen: Settings,
        wiring: Wiring,
        found: clusterapi.Config,
        time: clock.Clock,
        think: Think[Decision] = in_thread,
        chance: random.Random | None = None,
        published: Publisher | None = None,
    ) -> None:
        """`chance` makes it one of a simulation: what clients leave to chance is drawn from it, and loops and watches
        that nobody would miss are left out. `published`: where its status goes, if anywhere.
        """
        self._servers, self._chosen, self._wiring, self._clock, self._chance = servers, chosen, wiring, time, chance
        self._identity = leader_election.make_identity()
        self._leads_since_s: float | None = None
        self._election = self._stand() if wiring.leads else None
        self.published = published
        self._snapshots = endpoints.Snapshots(self._is_leading) if wiring.reporting.debugging_snapshot_enabled else None
        self.reporter = report.Reporter(
            self._client(servers.workload),
            chosen,
            wiring.objects,
            wiring.reporting,
            wiring.mode,
            self._snapshots,
            published,
            None if servers.management is servers.workload else self._client(servers.management),
        )
        found = clusterapi_config.apply_deviations(found, chosen.deviations)
        self.provider = clusterapi.Provider(self._client(servers.management), found, self._note_group)
        priorities_in = wiring.objects.namespace if "priority" in chosen.scale_up.expander else ""
        workload = self._client(servers.workload)
        written = journal.Journal() if wiring.recording.record else None
        self._batch = sources.choose(chosen)
        told = server_release.Choice(wiring.scheduler.kube_scheduler_version, dict(wiring.scheduler.feature_gates))
        scheduler = None if chance is not None and not told.version else told  # a simulation has a scheduler of its own
        self.world = World(workload, self.provider, self._note, priorities_in, written, self._batch, scheduler)
        self._recorder = _record(written, wiring.recording) if written is not None else None
        self._shadow = (
            Shadow(wiring.mode.shadow_window_s, self.reporter.metrics.registry) if wiring.mode.shadow else None
        )
        objects = wiring.objects
        self.autoscaler = Autoscaler(
            self.world,
            Actor(workload, self.provider, self._batch.requests),
            self.reporter,
            keeping.Keeper(
                self._client(servers.workload),
                objects.namespace,
                objects.memory_config_map if wiring.acts else "",
                self._identity,
            ),
            chosen,
            time,
            frequent=wiring.loop.frequent_loops_enabled,
            patient=chance is not None,
            bystander=self._shadow or (dry_run.DryRun() if wiring.mode.dry_run else None),
            may_act=self._may_act,
            think=think,
            recorder=self._recorder,
            ask=asking(opening.open_server(chosen.scale_up.expander, wiring.expander, chance is None), chance is None),
        )

    async def run(self) -> None:
        """Until cancelled. LeadershipLost if someone else leads now."""
        async with self._serving():
            try:
                await self.take_part()
            finally:
                shutdown.expect_end()

    async def take_part(self) -> None:
        """The same, with nothing served: follow both clusters, and lead when it is this one's turn."""
        async with asyncio.TaskGroup() as together:
            following = [together.create_task(self.world.run()), together.create_task(self.provider.run())]
            if self._shadow is not None:
                following.append(
                    together.create_task(listening.listen(self._client(self._servers.workload), self._shadow))
                )
            try:
                if self._election is None:
                    await self.lead()
                else:
                    await self._election.run(self.lead)
            finally:
                for task in following:
                    task.cancel()

    async def lead(self) -> None:
        """Decide and act, once everything was seen; put things in order in the end."""
        self._leads_since_s = self._clock.monotonic_s()
        writing = asyncio.create_task(self.reporter.run())
        try:
            self._tell_leading()
            await self.reporter.start()
            await self.world.wait_synced()
            await self.provider.wait_synced()
            freeze()
            async with self._keeping_statuses():
                await self.autoscaler.run()
        finally:
            if self._shadow is not None:
                _log.info("%s", self._shadow.end())
            if self._recorder is not None:
                self._recorder.close()
            self._leads_since_s = None
            await self.reporter.close()
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    # Inside

    @contextlib.asynccontextmanager
    async def _keeping_statuses(self) -> AsyncIterator[None]:
        """Meanwhile the status of quotas and buffers is kept, where anything may be written."""
        if not self._wiring.acts:
            yield
            return
        api = self._client(self._servers.workload)
        async with sources.keeping_statuses(api, self._batch, self.world.nodes, self._chosen, self._clock):
            yield

    def _client(self, server: transport.Transport) -> client.Client:
        """A client with limits of its own, so that nobody who writes waits for another who does.

        Of several processes, one that does not lead any more writes nothing with it.
        """
        chosen = self._wiring.clients
        if self._election is not None:
            server = fencing.Fenced(server, self._may_act)
        settings = client.Settings(
            user_agent=chosen.user_agent,
            writer=prepare.Writer("cluster-autoscaler"),
            qps=max(chosen.kube_client_qps, 0.0),
            burst=chosen.kube_client_burst,
        )
        if self._chance is not None:
            settings = replace(settings, watch_s=_SIMULATED_WATCH_S, silence_s=2 * _SIMULATED_WATCH_S)
        return client.Client(server, self._clock, settings, self._chance)

    def _stand(self) -> leader_election.Election:
        chosen = self._wiring.leader_election
        return leader_election.Election(
            client.Client(
                self._servers.workload, self._clock, client.Settings(user_agent="cluster-autoscaler"), self._chance
            ),
            self._wiring.lease_namespace,
            chosen.leader_elect_resource_name,
            self._identity,
            leader_election.Settings(
                round(chosen.leader_elect_lease_duration_s),
                chosen.leader_elect_renew_deadline_s,
                chosen.leader_elect_retry_period_s,
            ),
            self._chance,
        )

    def _may_act(self) -> bool:
        return self._wiring.acts and self._is_leading()

    def _is_leading(self) -> bool:
        return self._election is None or self._election.is_leader

    def _note(self, kind: str) -> None:
        self.autoscaler.note(kind)

    def _note_group(self) -> None:
        self.autoscaler.note("NodeGroup")

    def _tell_leading(self) -> None:
        if self._election is not None:
            name = self._wiring.leader_election.leader_elect_resource_name
            self.reporter.leading(self._wiring.lease_namespace, name, self._election.holder)

    @contextlib.asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        chosen = self._wiring.loop
        activity = health.Activity(
            self.autoscaler.loop,
            self._clock,
            chosen.max_inactivity_s,
            chosen.max_failing_time_s,
            max(chosen.max_startup_time_s, chosen.max_inactivity_s, chosen.max_failing_time_s),
            lambda: self._leads_since_s,
        )
        state = health.Health(live={"loop": activity}, ready={"watches": self._complain})
        app = endpoints.make_app(
            state,
            self.reporter.metrics.registry,
            activity,
            snapshots=self._snapshots,
            profiling=self._wiring.reporting.profiling,
            answering=self.autoscaler,
            published=self.published,
            write=metrics.write,
            debugging=self._wiring.reporting.enable_debugging_handlers,
        )
        async with (
            tls.current(endpoints.find_certificate(self._wiring.reporting), self._clock) as context,
            serving.serve(self._wiring.reporting.address, app, context) as port,
        ):
            _log.info("serving health and metrics on port %d", port)
            yield

    def _complain(self) -> str:
        found: Mapping[str, str] = self.world.trouble | self.provider.trouble
        return "; ".join(f"{kind}: {why}" for kind, why in found.items())


def asking(server: opening.Server | None, is_live: bool = True) -> Ask | None:
    """How the user's own expander is asked: in a simulation, while everything else stands still."""
    if server is None:
        return None

    async def ask(question: Question) -> Opinion:
        # A thread that is not waited for when nobody wants its answer any more: it reads nothing that changes.
        return await (asyncio.to_thread(server.ask, question) if is_live else inline(lambda: server.ask(question)))

    return ask


def _record(snapshot: journal.Journal, chosen: Recording) -> Recorder:
    return Recorder(snapshot, Path(chosen.record), chosen.record_limit_mib * 2**20)
