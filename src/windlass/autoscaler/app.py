"""Application: builds one autoscaler process from its options and runs it.

Health and metrics are served from the start, informers follow both clusters, and the elected leader decides and acts.
`observe_cluster` reads the inputs of one decision without acting, for `windlass plan` and `windlass explain`. It reads
the saved memory of a running windlass, so that its timers, scale-up requests and backoffs count.
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

from windlass import clock, errors, formatting
from windlass.autoscaler import (
    cluster_informers,
    http_endpoints,
    memory_store,
    scheduler_config,
    shadow_comparison,
    shadow_mode,
)
from windlass.autoscaler.actuator import Actuator
from windlass.autoscaler.autoscaler import Autoscaler, DecisionRunner, QueryExpander, run_in_thread, run_inline
from windlass.autoscaler.cluster_informers import ClusterState
from windlass.autoscaler.grpc_expander import expander_query
from windlass.autoscaler.options.process_options import (
    ClientOptions,
    LeaderElectionOptions,
    ProcessOptions,
    RecordingOptions,
)
from windlass.autoscaler.record_replay import snapshot_journal
from windlass.autoscaler.record_replay.recorder import DecisionRecorder
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
from windlass.observability import debugging_snapshot, metric_definitions, reporter, status_builder
from windlass.observability.options import DashboardOptions
from windlass.observability.status_publisher import StatusPublisher
from windlass.observability.status_routes import ExplainSource
from windlass.providers.clusterapi import auto_discovery
from windlass.providers.clusterapi import provider as clusterapi_provider
from windlass.runtime import health, http_server, leader_election, shutdown

_SIMULATED_WATCH_TIMEOUT_S = 86400.0
"""Watch timeout in a simulation. A watch on an in-process server cannot break silently, and frequent renewal would
dominate the run time of an idle day."""

SHUTDOWN_GRACE_S = 4.0
"""Time limit of a graceful shutdown, in total. Plans decided by then are no longer executed."""

_GC_THRESHOLD = 20_000
"""Allocation threshold of the garbage collector's first generation."""

_log = logging.getLogger(__name__)

ServeDashboard = Callable[
    [DashboardOptions, StatusPublisher, ExplainSource], contextlib.AbstractAsyncContextManager[None]
]
"""Serves the dashboard while the process runs; implemented by higher layers."""


@contextlib.asynccontextmanager
async def _serve_nothing(*_: object) -> AsyncIterator[None]:
    yield


async def run(settings: Settings, options: ProcessOptions, beside: ServeDashboard = _serve_nothing) -> None:
    """Run until cancelled or until leadership is lost. InvalidInput for unusable flags.

    `beside`: serves the dashboard.
    """
    time = clock.RealClock()
    config = auto_discovery.read_config(options.node_groups.node_group_auto_discovery, os.environ)
    if options.leads:
        _read_election_settings(options.leader_election)  # before a cluster is looked for
    async with connect(time, options.clients) as servers:
        published = StatusPublisher(time.now_s, describe_publisher(options, options.mode.name))
        process = AutoscalerProcess(servers, settings, options, config, time, published=published)
        async with beside(options.dashboard, published, process.autoscaler):
            await process.run()


def describe_publisher(
    options: ProcessOptions, mode: str, name: str = "", speed: float = 1.0
) -> status_builder.PublisherInfo:
    """What a process with these options says of itself in its published status."""
    told = options.reporting
    currency = formatting.find_currency(told.currency)
    return status_builder.PublisherInfo(
        mode, name, speed, told.cluster_name, currency, options.recording.record, told.runbook
    )


def _read_election_settings(options: LeaderElectionOptions) -> leader_election.LeaderElectionSettings:
    """InvalidInput for times with which two processes could lead at once, or none."""
    return leader_election.LeaderElectionSettings(
        round(options.leader_elect_lease_duration_s),
        options.leader_elect_renew_deadline_s,
        options.leader_elect_retry_period_s,
    )


def freeze_garbage_collector() -> None:
    """Exclude existing objects from garbage collection: half a million long-lived facts.

    Scanning them would cost every decision a tenth of its time, and so would a collection after every few hundred
    allocations: a large decision allocates tens of thousands of objects that survive.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])


@dataclass(frozen=True, slots=True)
class ApiServers:
    """API clients of the workload cluster and the management cluster; often the same."""

    workload: transport.Transport
    management: transport.Transport


@contextlib.asynccontextmanager
async def connect(time: clock.Clock, client_options: ClientOptions) -> AsyncIterator[ApiServers]:
    """Connect to both clusters as the flags say."""
    allow_insecure = client_options.insecure_skip_tls_verify
    workload = rest_config.load_rest_config(
        time, client_options.kubeconfig, client_options.context, allow_insecure=allow_insecure
    )
    if client_options.kubernetes:
        workload = replace(workload, server=client_options.kubernetes)
    if client_options.cloud_config:
        management = rest_config.load_rest_config(time, client_options.cloud_config, allow_insecure=allow_insecure)
    elif client_options.clusterapi_cloud_config_authoritative and rest_config.is_in_cluster(os.environ):
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
    """One autoscaler with all its parts, on connected API servers."""

    def __init__(
        self,
        servers: ApiServers,
        settings: Settings,
        options: ProcessOptions,
        config: auto_discovery.Config,
        time: clock.Clock,
        think: DecisionRunner[Decision] = run_in_thread,
        rng: random.Random | None = None,
        published: StatusPublisher | None = None,
    ) -> None:
        """`rng`: random generator of a simulation; clients draw their jitter from it, and loops and watches without
        an effect there are left out. `published`: publisher of the status, if any.
        """
        self._servers, self._chosen, self._options, self._clock, self._rng = servers, settings, options, time, rng
        self._identity = leader_election.make_identity()
        self._leads_since_s: float | None = None
        self._election = self._make_election() if options.leads else None
        self.published = published
        self._snapshots = (
            debugging_snapshot.DebuggingSnapshotter(self._is_leading)
            if options.reporting.debugging_snapshot_enabled
            else None
        )
        self.reporter = reporter.Reporter(
            self._client(servers.workload),
            settings,
            options.objects,
            options.reporting,
            options.mode,
            self._snapshots,
            published,
            None if servers.management is servers.workload else self._client(servers.management),
        )
        config = auto_discovery.apply_deviations(config, settings.deviations)
        self.provider = clusterapi_provider.Provider(self._client(servers.management), config, self._on_group_change)
        priorities_in = options.objects.namespace if "priority" in settings.scale_up.expander else ""
        workload = self._client(servers.workload)
        journal = snapshot_journal.JournaledSnapshot() if options.recording.record else None
        self._capacity_apis = cluster_informers.select_capacity_apis(settings)
        release = scheduler_config.SchedulerRelease(
            options.scheduler.kube_scheduler_version, dict(options.scheduler.feature_gates)
        )
        scheduler = None if rng is not None and not release.version else release  # None: simulated
        self.cluster_state = ClusterState(
            workload, self.provider, self._on_change, priorities_in, journal, self._capacity_apis, scheduler
        )
        self._recorder = _make_recorder(journal, options.recording) if journal is not None else None
        self._shadow = (
            Shadow(options.mode.shadow_window_s, self.reporter.metrics.registry) if options.mode.shadow else None
        )
        objects = options.objects
        self.autoscaler = Autoscaler(
            self.cluster_state,
            Actuator(workload, self.provider, self._capacity_apis.requests),
            self.reporter,
            memory_store.MemoryStore(
                self._client(servers.workload),
                objects.namespace,
                objects.memory_config_map if options.acts else "",
                self._identity,
            ),
            settings,
            time,
            frequent=options.loop.frequent_loops_enabled,
            patient=rng is not None,
            observer=self._shadow or (shadow_mode.DryRun() if options.mode.dry_run else None),
            may_act=self._may_act,
            think=think,
            recorder=self._recorder,
            ask=make_expander_query(
                expander_query.open_expander(settings.scale_up.expander, options.expander, rng is None), rng is None
            ),
        )

    async def run(self) -> None:
        """Run until cancelled. LeadershipLost if another process became the leader."""
        async with self._serving():
            try:
                await self.run_without_serving()
            finally:
                shutdown.arm_watchdog()

    async def run_without_serving(self) -> None:
        """The same without HTTP endpoints: run the informers, and lead when elected."""
        async with asyncio.TaskGroup() as tasks:
            informers = [tasks.create_task(self.cluster_state.run()), tasks.create_task(self.provider.run())]
            if self._shadow is not None:
                informers.append(
                    tasks.create_task(
                        shadow_comparison.watch_events(self._client(self._servers.workload), self._shadow)
                    )
                )
            try:
                if self._election is None:
                    await self.lead()
                else:
                    await self._election.run(self.lead)
            finally:
                for task in informers:
                    task.cancel()

    async def lead(self) -> None:
        """Decide and act, after the informers are synced; clean up at the end."""
        self._leads_since_s = self._clock.monotonic_s()
        report_writer = asyncio.create_task(self.reporter.run())
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
                _log.info("shadow mode ended: summary=%s", self._shadow.end())
            if self._recorder is not None:
                self._recorder.close()
            self._leads_since_s = None
            await self.reporter.close()
            report_writer.cancel()
            await asyncio.gather(report_writer, return_exceptions=True)

    # Internals

    @contextlib.asynccontextmanager
    async def _running_status_controllers(self) -> AsyncIterator[None]:
        """Run the status controllers of CapacityQuotas and CapacityBuffers, unless the process changes nothing."""
        if not self._options.acts:
            yield
            return
        api = self._client(self._servers.workload)
        async with cluster_informers.run_status_controllers(
            api, self._capacity_apis, self.cluster_state.nodes, self._chosen, self._clock
        ):
            yield

    def _client(self, server: transport.Transport) -> client.Client:
        """Return a client with a rate limit of its own, so that writers do not wait for each other.

        It stops writing when the process loses leadership.
        """
        client_options = self._options.clients
        if self._election is not None:
            server = leader_election.FencedTransport(server, self._may_act)
        settings = client.ClientSettings(
            user_agent=client_options.user_agent,
            writer=request_builders.WriteOptions("cluster-autoscaler"),
            qps=max(client_options.kube_client_qps, 0.0),
            burst=client_options.kube_client_burst,
        )
        if self._rng is not None:
            settings = replace(settings, watch_s=_SIMULATED_WATCH_TIMEOUT_S, silence_s=2 * _SIMULATED_WATCH_TIMEOUT_S)
        return client.Client(server, self._clock, settings, self._rng)

    def _make_election(self) -> leader_election.LeaderElector:
        leader_election_options = self._options.leader_election
        return leader_election.LeaderElector(
            client.Client(
                self._servers.workload,
                self._clock,
                client.ClientSettings(user_agent="cluster-autoscaler"),
                self._rng,
            ),
            self._options.lease_namespace,
            leader_election_options.leader_elect_resource_name,
            self._identity,
            _read_election_settings(leader_election_options),
            self._rng,
        )

    def _may_act(self) -> bool:
        return self._options.acts and self._is_leading()

    def _is_leading(self) -> bool:
        return self._election is None or self._election.is_leader

    def _on_change(self, kind: str) -> None:
        self.autoscaler.on_change(kind)

    def _on_group_change(self) -> None:
        self.autoscaler.on_change("NodeGroup")

    def _report_leader(self) -> None:
        if self._election is not None:
            name = self._options.leader_election.leader_elect_resource_name
            self.reporter.leader_changed(self._options.lease_namespace, name, self._election.holder)

    @contextlib.asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        loop_options = self._options.loop
        activity = health.LoopActivity(
            self.autoscaler.loop,
            self._clock,
            loop_options.max_inactivity_s,
            loop_options.max_failing_time_s,
            max(loop_options.max_startup_time_s, loop_options.max_inactivity_s, loop_options.max_failing_time_s),
            lambda: self._leads_since_s,
        )
        state = health.Health(live={"loop": activity}, ready={"watches": self._check_watches})
        app = http_endpoints.make_app(
            state,
            self.reporter.metrics.registry,
            activity,
            snapshots=self._snapshots,
            profiling=self._options.reporting.profiling,
            answering=self.autoscaler,
            published=self.published,
            token_file=self._options.dashboard.dashboard_token_file,
            recording=Path(self._options.recording.record) if self._options.recording.record else None,
            write=metric_definitions.render_metrics,
            debugging=self._options.reporting.enable_debugging_handlers,
        )
        async with (
            http_server.reloading_ssl_context(
                http_endpoints.find_serving_certificate(self._options.reporting), self._clock
            ) as context,
            http_server.serve(self._options.reporting.address, app, context) as port,
        ):
            _log.info("serving health and metrics: port=%d", port)
            yield

    def _check_watches(self) -> str:
        failures: Mapping[str, str] = self.cluster_state.trouble | self.provider.trouble
        return "; ".join(f"{kind}: {why}" for kind, why in failures.items())


def make_expander_query(server: expander_query.ExpanderPort | None, is_live: bool = True) -> QueryExpander | None:
    """Return how the gRPC expander is called: in a thread, or in a simulation while virtual time stands still."""
    if server is None:
        return None

    async def ask(question: BestOptionsRequest) -> BestOptionsResponse:
        # The thread is not awaited after a cancellation: its inputs are immutable.
        return await (
            asyncio.to_thread(server.best_options, question)
            if is_live
            else run_inline(lambda: server.best_options(question))
        )

    return ask


def _make_recorder(
    snapshot: snapshot_journal.JournaledSnapshot, recording_options: RecordingOptions
) -> DecisionRecorder:
    return DecisionRecorder(snapshot, Path(recording_options.record), recording_options.record_limit_mib * 2**20)


SYNC_TIMEOUT_S = 60.0
"""Time limit for the informers to sync."""

DecisionInputs = tuple[Observation, LoopMemory, Settings, float]


async def observe_cluster(settings: Settings, options: ProcessOptions, time: clock.Clock) -> DecisionInputs:
    """Observe the cluster of the current kubeconfig once. WindlassError if it cannot be read in time."""
    config = auto_discovery.read_config(options.node_groups.node_group_auto_discovery, os.environ)
    async with connect(time, options.clients) as servers:
        for server in {id(server): server for server in (servers.workload, servers.management)}.values():
            await check_reachable(server, time, options.clients.request_timeout_s)
        return await query_expander(await observe_connected(servers, settings, options, config, time), options, time)


async def follow_cluster(
    settings: Settings,
    options: ProcessOptions,
    time: clock.Clock,
    published: StatusPublisher | None = None,
    attach: Callable[[AutoscalerProcess], None] = lambda process: None,
) -> None:
    """Observe the cluster of the current kubeconfig and decide, without acting on it, until cancelled.

    `attach` receives the process before it starts. WindlassError if the cluster cannot be read.
    """
    config = auto_discovery.read_config(options.node_groups.node_group_auto_discovery, os.environ)
    options = replace(
        options,
        mode=replace(options.mode, dry_run=True, shadow=False),
        leader_election=replace(options.leader_election, leader_elect=False),
    )
    async with connect(time, options.clients) as servers:
        for server in {id(server): server for server in (servers.workload, servers.management)}.values():
            await check_reachable(server, time, options.clients.request_timeout_s)
        process = AutoscalerProcess(servers, settings, options, config, time, published=published)
        attach(process)
        await process.run_without_serving()


async def check_reachable(server: transport.Transport, time: clock.Clock, timeout_s: float) -> None:
    """WindlassError unless the API server answers in time and knows who asks."""
    api = client.Client(server, time).without_retries(timeout_s)
    try:
        await clock.run_with_timeout(time, timeout_s, api.call(transport.Request("GET", "/version")))
    except (TimeoutError, kube_errors.CallTimedOut):
        hint = "is the address of the kubeconfig right, and does it take a VPN?"
        raise errors.WindlassError(
            f"the API server gave no answer within {timeout_s:g} s (--request-timeout); {hint}"
        ) from None
    except (kube_errors.ConnectionLost, kube_errors.CredentialsFailed, kube_errors.Unauthorized) as error:
        raise errors.WindlassError(f"the API server cannot be used: {error}") from None
    except kube_errors.KubeError:
        return  # it answers


async def observe_connected(
    servers: ApiServers, settings: Settings, options: ProcessOptions, config: auto_discovery.Config, time: clock.Clock
) -> DecisionInputs:
    """Observe once on connected API servers."""
    reads = client.ClientSettings(user_agent=options.clients.user_agent)
    workload = client.Client(servers.workload, time, reads)
    config = auto_discovery.apply_deviations(config, settings.deviations)
    provider = clusterapi_provider.Provider(client.Client(servers.management, time, reads), config)
    priorities_in = options.objects.namespace if "priority" in settings.scale_up.expander else ""
    release = scheduler_config.SchedulerRelease(
        options.scheduler.kube_scheduler_version, dict(options.scheduler.feature_gates)
    )
    cluster_state = ClusterState(
        workload,
        provider,
        _ignore,
        priorities_in,
        batch=cluster_informers.select_capacity_apis(settings),
        scheduler=release,
    )
    tasks = [asyncio.create_task(cluster_state.run()), asyncio.create_task(provider.run())]
    try:
        await clock.run_with_timeout(time, SYNC_TIMEOUT_S, _wait_synced(cluster_state, provider))
        memory = await memory_store.MemoryStore(
            workload, options.objects.namespace, options.objects.memory_config_map
        ).read()
        return cluster_state.observe().observation, memory, settings, time.now_s()
    except TimeoutError:
        trouble = "; ".join(f"{kind}: {why}" for kind, why in {**cluster_state.trouble, **provider.trouble}.items())
        raise errors.WindlassError(f"the cluster could not be read within {SYNC_TIMEOUT_S:g} s: {trouble}") from None
    except kube_errors.KubeError as error:
        raise errors.WindlassError(f"the autoscaler's memory could not be read: {error}") from error
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def query_expander(moment: DecisionInputs, options: ProcessOptions, time: clock.Clock) -> DecisionInputs:
    """Add the gRPC expander's answers to an observation, if --grpc-expander-url is set."""
    seen, memory, settings, now_s = moment
    up = settings.scale_up
    ask = make_expander_query(expander_query.open_expander(up.expander, options.expander, is_needed=False))
    if ask is None:
        return moment

    async def decide(observation: Observation) -> Decision:
        return loop.decide(observation, memory, settings, now_s)

    seen, _ = await expander_query.decide_with_expander(seen, decide, ask, time, up.salvo_scale_up_budget_s)
    return seen, memory, settings, now_s


async def _wait_synced(cluster_state: ClusterState, provider: clusterapi_provider.Provider) -> None:
    await cluster_state.wait_synced()
    await provider.wait_synced()


def _ignore(_: str) -> None: ...
