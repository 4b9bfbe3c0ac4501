"""Application: builds one autoscaler process from its options and runs it.

Health and metrics are served from the start, informers follow both clusters, and the elected leader decides and acts.
`observe_cluster` reads the inputs of one decision without acting, for `windlass plan` and `windlass explain`. It reads
the saved memory of a running windlass, so that its timers, requests and backoffs count.
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

from windlass import clock, errors
from windlass.autoscaler import (
    cluster_state,
    http_endpoints,
    memory_store,
    scheduler_config,
    shadow_actions,
    shadow_mode,
)
from windlass.autoscaler.actuator import Actuator
from windlass.autoscaler.autoscaler import Autoscaler, DecisionRunner, QueryExpander, run_in_thread, run_inline
from windlass.autoscaler.cluster_state import ClusterState
from windlass.autoscaler.grpc_expander import expander_query
from windlass.autoscaler.options.process_options import ClientOptions, ProcessOptions, RecordingOptions
from windlass.autoscaler.recording import snapshot_journal
from windlass.autoscaler.recording.recorder import DecisionRecorder
from windlass.autoscaler.shadow_mode import Shadow
from windlass.engine import loop
from windlass.engine.expanders.grpc import BestOptionsRequest
from windlass.engine.loop import Decision
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model.scale_up_status import BestOptionsResponse
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.kube import client, request_builders, rest_config, transport
from windlass.kube import errors as kube_errors
from windlass.observability import debugging_snapshot, metric_registry, reporter, status_builder
from windlass.observability.options import DashboardOptions
from windlass.observability.status_publisher import StatusPublisher
from windlass.observability.status_routes import ExplainSource
from windlass.providers.clusterapi import group_discovery
from windlass.providers.clusterapi import provider as clusterapi_provider
from windlass.runtime import health, http_server, leader_election, shutdown

_SIMULATED_WATCH_TIMEOUT_S = 86400.0
"""No watch on a server in the same process breaks off unheard; renewing it often would be most of a quiet day."""

SHUTDOWN_GRACE_S = 4.0
"""For ending in good order when asked to, all in all: what is decided by then is not carried out any more."""

_GC_THRESHOLD = 20_000
"""How many the garbage collector lets come before it looks at them."""

_log = logging.getLogger(__name__)

ServeDashboard = Callable[
    [DashboardOptions, StatusPublisher, ExplainSource], contextlib.AbstractAsyncContextManager[None]
]
"""What else is served while it runs: floors above know how."""


@contextlib.asynccontextmanager
async def _serve_nothing(*_: object) -> AsyncIterator[None]:
    yield


async def run(chosen: Settings, wiring: ProcessOptions, beside: ServeDashboard = _serve_nothing) -> None:
    """Until cancelled, or until leadership is lost. InvalidInput for flags that cannot be used.

    `beside`: what serves the dashboard.
    """
    time = clock.RealClock()
    found = group_discovery.read_config(wiring.node_groups.node_group_auto_discovery, os.environ)
    async with connect(time, wiring.clients) as servers:
        published = StatusPublisher(time.now_s, status_builder.PublisherInfo(wiring.mode.name))
        process = AutoscalerProcess(servers, chosen, wiring, found, time, published=published)
        async with beside(wiring.dashboard, published, process.autoscaler):
            await process.run()


def freeze_garbage_collector() -> None:
    """Let the garbage collector leave alone what is there by now: half a million facts that stay for long.

    Looking through them would cost every decision a tenth of its time. So would looking after every few hundred new
    objects whether they are garbage: a large decision makes tens of thousands that stay.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])


@dataclass(frozen=True, slots=True)
class ApiServers:
    """The cluster whose pods are served, and the one where its Machines are; often the same."""

    workload: transport.Transport
    management: transport.Transport


@contextlib.asynccontextmanager
async def connect(time: clock.Clock, chosen: ClientOptions) -> AsyncIterator[ApiServers]:
    """Both, as the flags say."""
    workload = rest_config.load_rest_config(time, chosen.kubeconfig)
    if chosen.kubernetes:
        workload = replace(workload, server=chosen.kubernetes)
    if chosen.cloud_config:
        management = rest_config.load_rest_config(time, chosen.cloud_config)
    elif chosen.clusterapi_cloud_config_authoritative and rest_config.is_in_cluster(os.environ):
        management = rest_config.in_cluster_config(time, os.environ)
    else:
        management = workload
    async with workload.connect() as one:
        if management is workload:
            yield ApiServers(one, one)
            return
        async with management.connect() as other:
            yield ApiServers(one, other)


class AutoscalerProcess:
    """One autoscaler with all its parts, on servers that are reached already."""

    def __init__(
        self,
        servers: ApiServers,
        chosen: Settings,
        wiring: ProcessOptions,
        found: group_discovery.Config,
        time: clock.Clock,
        think: DecisionRunner[Decision] = run_in_thread,
        chance: random.Random | None = None,
        published: StatusPublisher | None = None,
    ) -> None:
        """`chance` makes it one of a simulation: what clients leave to chance is drawn from it, and loops and watches
        that nobody would miss are left out. `published`: where its status goes, if anywhere.
        """
        self._servers, self._chosen, self._wiring, self._clock, self._chance = servers, chosen, wiring, time, chance
        self._identity = leader_election.make_identity()
        self._leads_since_s: float | None = None
        self._election = self._make_election() if wiring.leads else None
        self.published = published
        self._snapshots = (
            debugging_snapshot.DebuggingSnapshotter(self._is_leading)
            if wiring.reporting.debugging_snapshot_enabled
            else None
        )
        self.reporter = reporter.Reporter(
            self._client(servers.workload),
            chosen,
            wiring.objects,
            wiring.reporting,
            wiring.mode,
            self._snapshots,
            published,
            None if servers.management is servers.workload else self._client(servers.management),
        )
        found = group_discovery.apply_deviations(found, chosen.deviations)
        self.provider = clusterapi_provider.Provider(self._client(servers.management), found, self._note_group)
        priorities_in = wiring.objects.namespace if "priority" in chosen.scale_up.expander else ""
        workload = self._client(servers.workload)
        written = snapshot_journal.JournaledSnapshot() if wiring.recording.record else None
        self._batch = cluster_state.select_capacity_apis(chosen)
        told = scheduler_config.SchedulerRelease(
            wiring.scheduler.kube_scheduler_version, dict(wiring.scheduler.feature_gates)
        )
        scheduler = None if chance is not None and not told.version else told  # a simulation has a scheduler of its own
        self.cluster_state = ClusterState(
            workload, self.provider, self._note, priorities_in, written, self._batch, scheduler
        )
        self._recorder = _make_recorder(written, wiring.recording) if written is not None else None
        self._shadow = (
            Shadow(wiring.mode.shadow_window_s, self.reporter.metrics.registry) if wiring.mode.shadow else None
        )
        objects = wiring.objects
        self.autoscaler = Autoscaler(
            self.cluster_state,
            Actuator(workload, self.provider, self._batch.requests),
            self.reporter,
            memory_store.MemoryStore(
                self._client(servers.workload),
                objects.namespace,
                objects.memory_config_map if wiring.acts else "",
                self._identity,
            ),
            chosen,
            time,
            frequent=wiring.loop.frequent_loops_enabled,
            patient=chance is not None,
            bystander=self._shadow or (shadow_mode.DryRun() if wiring.mode.dry_run else None),
            may_act=self._may_act,
            think=think,
            recorder=self._recorder,
            ask=make_expander_query(
                expander_query.open_expander(chosen.scale_up.expander, wiring.expander, chance is None), chance is None
            ),
        )

    async def run(self) -> None:
        """Until cancelled. LeadershipLost if someone else leads now."""
        async with self._serving():
            try:
                await self.run_without_serving()
            finally:
                shutdown.arm_watchdog()

    async def run_without_serving(self) -> None:
        """The same, with nothing served: follow both clusters, and lead when it is this one's turn."""
        async with asyncio.TaskGroup() as together:
            following = [together.create_task(self.cluster_state.run()), together.create_task(self.provider.run())]
            if self._shadow is not None:
                following.append(
                    together.create_task(
                        shadow_actions.watch_events(self._client(self._servers.workload), self._shadow)
                    )
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
            self._report_leader()
            await self.reporter.start()
            await self.cluster_state.wait_synced()
            await self.provider.wait_synced()
            freeze_garbage_collector()
            async with self._running_status_controllers():
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
    async def _running_status_controllers(self) -> AsyncIterator[None]:
        """Meanwhile the status of quotas and buffers is kept, where anything may be written."""
        if not self._wiring.acts:
            yield
            return
        api = self._client(self._servers.workload)
        async with cluster_state.run_status_controllers(
            api, self._batch, self.cluster_state.nodes, self._chosen, self._clock
        ):
            yield

    def _client(self, server: transport.Transport) -> client.Client:
        """A client with limits of its own, so that nobody who writes waits for another who does.

        Of several processes, one that does not lead any more writes nothing with it.
        """
        chosen = self._wiring.clients
        if self._election is not None:
            server = leader_election.FencedTransport(server, self._may_act)
        settings = client.ClientSettings(
            user_agent=chosen.user_agent,
            writer=request_builders.WriteOptions("cluster-autoscaler"),
            qps=max(chosen.kube_client_qps, 0.0),
            burst=chosen.kube_client_burst,
        )
        if self._chance is not None:
            settings = replace(settings, watch_s=_SIMULATED_WATCH_TIMEOUT_S, silence_s=2 * _SIMULATED_WATCH_TIMEOUT_S)
        return client.Client(server, self._clock, settings, self._chance)

    def _make_election(self) -> leader_election.LeaderElector:
        chosen = self._wiring.leader_election
        return leader_election.LeaderElector(
            client.Client(
                self._servers.workload,
                self._clock,
                client.ClientSettings(user_agent="cluster-autoscaler"),
                self._chance,
            ),
            self._wiring.lease_namespace,
            chosen.leader_elect_resource_name,
            self._identity,
            leader_election.LeaderElectionSettings(
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
        self.autoscaler.on_change(kind)

    def _note_group(self) -> None:
        self.autoscaler.on_change("NodeGroup")

    def _report_leader(self) -> None:
        if self._election is not None:
            name = self._wiring.leader_election.leader_elect_resource_name
            self.reporter.leader_changed(self._wiring.lease_namespace, name, self._election.holder)

    @contextlib.asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        chosen = self._wiring.loop
        activity = health.LoopActivity(
            self.autoscaler.loop,
            self._clock,
            chosen.max_inactivity_s,
            chosen.max_failing_time_s,
            max(chosen.max_startup_time_s, chosen.max_inactivity_s, chosen.max_failing_time_s),
            lambda: self._leads_since_s,
        )
        state = health.Health(live={"loop": activity}, ready={"watches": self._check_watches})
        app = http_endpoints.make_app(
            state,
            self.reporter.metrics.registry,
            activity,
            snapshots=self._snapshots,
            profiling=self._wiring.reporting.profiling,
            answering=self.autoscaler,
            published=self.published,
            write=metric_registry.render_metrics,
            debugging=self._wiring.reporting.enable_debugging_handlers,
        )
        async with (
            http_server.reloading_ssl_context(
                http_endpoints.find_serving_certificate(self._wiring.reporting), self._clock
            ) as context,
            http_server.serve(self._wiring.reporting.address, app, context) as port,
        ):
            _log.info("serving health and metrics on port %d", port)
            yield

    def _check_watches(self) -> str:
        found: Mapping[str, str] = self.cluster_state.trouble | self.provider.trouble
        return "; ".join(f"{kind}: {why}" for kind, why in found.items())


def make_expander_query(server: expander_query.ExpanderPort | None, is_live: bool = True) -> QueryExpander | None:
    """How the user's own expander is asked: in a simulation, while everything else stands still."""
    if server is None:
        return None

    async def ask(question: BestOptionsRequest) -> BestOptionsResponse:
        # A thread that is not waited for when nobody wants its answer any more: it reads nothing that changes.
        return await (
            asyncio.to_thread(server.best_options, question)
            if is_live
            else run_inline(lambda: server.best_options(question))
        )

    return ask


def _make_recorder(snapshot: snapshot_journal.JournaledSnapshot, chosen: RecordingOptions) -> DecisionRecorder:
    return DecisionRecorder(snapshot, Path(chosen.record), chosen.record_limit_mib * 2**20)


SYNC_TIMEOUT_S = 60.0
"""A server that does not answer is not waited for any longer."""

DecisionInputs = tuple[Observation, LoopMemory, Settings, float]


async def observe_cluster(settings: Settings, wiring: ProcessOptions, time: clock.Clock) -> DecisionInputs:
    """The cluster of the current kubeconfig. WindlassError if it cannot be read in time."""
    found = group_discovery.read_config(wiring.node_groups.node_group_auto_discovery, os.environ)
    async with connect(time, wiring.clients) as servers:
        return await query_expander(await observe_connected(servers, settings, wiring, found, time), wiring, time)


async def observe_connected(
    servers: ApiServers, settings: Settings, wiring: ProcessOptions, found: group_discovery.Config, time: clock.Clock
) -> DecisionInputs:
    """The same on servers that are reached already."""
    reads = client.ClientSettings(user_agent=wiring.clients.user_agent)
    workload = client.Client(servers.workload, time, reads)
    found = group_discovery.apply_deviations(found, settings.deviations)
    provider = clusterapi_provider.Provider(client.Client(servers.management, time, reads), found)
    priorities_in = wiring.objects.namespace if "priority" in settings.scale_up.expander else ""
    told = scheduler_config.SchedulerRelease(
        wiring.scheduler.kube_scheduler_version, dict(wiring.scheduler.feature_gates)
    )
    world = ClusterState(
        workload, provider, _ignore, priorities_in, batch=cluster_state.select_capacity_apis(settings), scheduler=told
    )
    tasks = [asyncio.create_task(world.run()), asyncio.create_task(provider.run())]
    try:
        await clock.run_with_timeout(time, SYNC_TIMEOUT_S, _wait_synced(world, provider))
        memory = await memory_store.MemoryStore(
            workload, wiring.objects.namespace, wiring.objects.memory_config_map
        ).read()
        return world.observe().observation, memory, settings, time.now_s()
    except TimeoutError:
        trouble = "; ".join(f"{kind}: {why}" for kind, why in {**world.trouble, **provider.trouble}.items())
        raise errors.WindlassError(f"the cluster could not be read within {SYNC_TIMEOUT_S:g} s: {trouble}") from None
    except kube_errors.KubeError as error:
        raise errors.WindlassError(f"the autoscaler's memory could not be read: {error}") from error
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def query_expander(moment: DecisionInputs, wiring: ProcessOptions, time: clock.Clock) -> DecisionInputs:
    """With what the user's own expander says, if --grpc-expander-url tells where it is."""
    seen, memory, settings, now_s = moment
    up = settings.scale_up
    ask = make_expander_query(expander_query.open_expander(up.expander, wiring.expander, is_needed=False))
    if ask is None:
        return moment

    async def decide(seen: Observation) -> Decision:
        return loop.decide(seen, memory, settings, now_s)

    seen, _ = await expander_query.decide_with_expander(seen, decide, ask, time, up.salvo_scale_up_budget_s)
    return seen, memory, settings, now_s


async def _wait_synced(world: ClusterState, provider: clusterapi_provider.Provider) -> None:
    await world.wait_synced()
    await provider.wait_synced()


def _ignore(_: str) -> None: ...
