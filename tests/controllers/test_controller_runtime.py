"""The frame that controllers stand in."""

import asyncio
import contextlib
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator

import prometheus_client
import pytest

from tests.controllers.machine_pool import management_cluster
from windlass import clock, errors
from windlass.apiserver import embedded_server, server
from windlass.cli import main
from windlass.controllers import controller_interface, controller_runtime, operator_process
from windlass.controllers.controller_interface import Controller
from windlass.controllers.controller_runtime import ControllerMetrics
from windlass.kube import client, request_builders, resources
from windlass.runtime import workqueue


def make_site(
    time: clock.Clock, served: server.Server, lease: controller_runtime.LeaseSettings | None = None
) -> controller_runtime.ControllerContext:
    carrier, measures = (
        embedded_server.InProcessTransport(served, time),
        ControllerMetrics(prometheus_client.CollectorRegistry()),
    )
    return controller_runtime.new_controller_context(carrier, time, client.ClientSettings(qps=0), measures, lease)


def config_map(name: str, **data: str) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


class Copier:
    """Makes a ConfigMap `copy-NAME` of every ConfigMap that is labelled so: as small as a controller can be."""

    name = "copier"

    def __init__(self, site: controller_runtime.ControllerContext) -> None:
        self.site = site
        self.queue: workqueue.WorkQueue[str] = workqueue.WorkQueue(site.api.clock)
        self.following = controller_runtime.InformerSet(self.queue)
        selection = request_builders.ListOptions("default", labels="copy")
        self.maps = self.following.watch(
            site.api, resources.CONFIG_MAPS, lambda found: [found.meta.key], selection
        ).store
        self.handled: list[str] = []

    def check_ready(self) -> str:
        return self.following.sync_error

    async def run(self) -> None:
        await self.following.run(self._reconcile)

    async def _reconcile(self, key: str) -> float | None:
        with self.site.metrics.observe_reconcile(self.name):
            self.handled.append(key)
            found = self.maps.get(key)
            if found is None:
                return None
            if (found.data or {}).get("bad"):
                raise controller_interface.RequeueError(f"{key} is bad")
            await self.site.api.create(resources.CONFIG_MAPS, config_map(f"copy-{found.meta.name}"))
            return None


def labelled(name: str, **data: str) -> dict[str, object]:
    body = config_map(name, **data)
    body["metadata"] = {"name": name, "namespace": "default", "labels": {"copy": ""}}
    return body


def test_what_is_there_and_what_comes_is_reconciled_once_it_is_known() -> None:
    time = clock.VirtualClock()

    async def play() -> None:
        site = make_site(time, server.Server(time))
        await site.api.create(resources.CONFIG_MAPS, labelled("a"))
        copier = Copier(site)
        running = asyncio.ensure_future(operator_process.run([copier], site))
        await time.sleep(1.0)
        assert copier.check_ready() == ""
        await site.api.create(resources.CONFIG_MAPS, labelled("b"))
        await site.api.create(resources.CONFIG_MAPS, config_map("other"))
        await time.sleep(1.0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert copier.handled == ["default/a", "default/b"]
        assert await site.api.get(resources.CONFIG_MAPS, "copy-b", "default")

    time.run(play())


def test_one_bad_object_is_tried_again_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    time = clock.VirtualClock()

    async def play() -> None:
        site = make_site(time, server.Server(time))
        await site.api.create(resources.CONFIG_MAPS, labelled("bad", bad="yes"))
        await site.api.create(resources.CONFIG_MAPS, labelled("good"))
        copier = Copier(site)
        running = asyncio.ensure_future(copier.run())
        await time.sleep(10.0)
        assert copier.handled.count("default/good") == 1
        tries = copier.handled.count("default/bad")
        assert tries > 2
        count = site.metrics.registry.get_sample_value
        labels = {"controller": "copier", "result": "error"}
        assert count("windlass_controller_reconcile_total", labels) == tries
        await site.api.merge_patch(resources.CONFIG_MAPS, "bad", {"data": {"bad": None}}, "default")
        await time.sleep(1.0)
        assert await site.api.get(resources.CONFIG_MAPS, "copy-bad", "default")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    time.run(play())
    assert "Traceback" not in caplog.text
    assert "default/bad is bad" in caplog.text


def test_of_two_operators_one_works_and_the_other_takes_over() -> None:
    time = clock.VirtualClock()

    async def play() -> None:
        served = server.Server(time)
        sites = [make_site(time, served, controller_runtime.LeaseSettings("default")) for _ in range(2)]
        copiers = [Copier(site) for site in sites]
        running = [
            asyncio.ensure_future(operator_process.run([copier], site))
            for copier, site in zip(copiers, sites, strict=True)
        ]
        people = make_site(time, served).api
        await people.create(resources.CONFIG_MAPS, labelled("a"))
        await time.sleep(30.0)
        worked = [bool(copier.handled) for copier in copiers]
        assert sorted(worked) == [False, True]
        leader = worked.index(True)
        running[leader].cancel()
        await asyncio.gather(running[leader], return_exceptions=True)
        await people.create(resources.CONFIG_MAPS, labelled("b"))
        await time.sleep(30.0)
        assert "default/b" in copiers[1 - leader].handled
        running[1 - leader].cancel()
        await asyncio.gather(*running, return_exceptions=True)

    time.run(play())


class Blocked:
    """Reconciles ConfigMaps, none of them before it may."""

    name = "blocked"

    def __init__(self, site: controller_runtime.ControllerContext) -> None:
        self.may_go_on = asyncio.Event()
        self._desk = controller_runtime.ReconcileLoop(site, self.name)
        self._desk.informers.watch(site.api, resources.CONFIG_MAPS, lambda found: [found.meta.key])

    def check_ready(self) -> str:
        return self._desk.check_ready()

    async def run(self) -> None:
        await self._desk.run(self._reconcile)

    async def _reconcile(self, key: str) -> float | None:
        await self.may_go_on.wait()
        return None


def test_objects_that_wait_are_counted_and_so_is_one_that_changed_while_it_was_reconciled() -> None:
    time = clock.VirtualClock()

    async def play() -> None:
        site = make_site(time, server.Server(time))
        for name in "abc":
            await site.api.create(resources.CONFIG_MAPS, config_map(name))
        blocked = Blocked(site)
        running = asyncio.ensure_future(operator_process.run([blocked], site))

        def scrape() -> float:
            (depth,) = (
                item for item in site.metrics.registry.collect() if item.name == "windlass_controller_queue_depth"
            )
            return depth.samples[0].value

        await time.sleep(1.0)
        assert scrape() == 2, "one of three is being reconciled"
        await site.api.merge_patch(resources.CONFIG_MAPS, "a", {"data": {"new": "yes"}}, "default")
        await time.sleep(1.0)
        assert scrape() == 3
        blocked.may_go_on.set()
        await time.sleep(1.0)
        assert scrape() == 0
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    time.run(play())


async def test_health_and_metrics_are_served() -> None:
    real = clock.RealClock()
    site = make_site(real, server.Server(real))
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    running = asyncio.ensure_future(operator_process.run([Copier(site)], site, address=f"127.0.0.1:{port}"))

    def ask(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return str(answer.read().decode())

    async def eventually(path: str, word: str) -> None:
        async with asyncio.timeout(60):
            while True:
                try:
                    if word in await asyncio.to_thread(ask, path):
                        return
                except urllib.error.URLError:
                    pass
                await asyncio.sleep(0.02)

    await eventually("/healthz", "ok")
    await eventually("/readyz", "ok")
    await eventually("/metrics", "windlass_controller_queue_depth")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(("names", "found"), [("machine_pool", 1), ("machine-pool, machine_pool,", 1)])
def test_controllers_are_chosen_by_name(names: str, found: int) -> None:
    assert len(operator_process.parse_controller_names(names)) == found


@pytest.mark.parametrize("names", ["", "machine_pool,nothing"])
def test_unknown_controllers_are_refused(names: str) -> None:
    with pytest.raises(errors.InvalidInput, match="expected some of machine_pool"):
        operator_process.parse_controller_names(names)


def test_the_command_refuses_unknown_controllers(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["operator", "--controllers", "nothing"])
    assert ended.value.code == 2
    assert "nothing" in capsys.readouterr().err


# Readiness

DEFINITIONS = resources.Resource(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", False, dict
)
CLUSTER_API_KINDS = ("Cluster", "Machine", "MachinePool", "MachineDeployment")
OWN_KINDS = (
    ("anywhere.eks.amazonaws.com", "Cluster", "v1alpha1"),
    ("lattice.io", "LatticeCluster", "v1alpha1"),
)


@contextlib.asynccontextmanager
async def _operating(time: clock.Clock, served: server.Server, name: str) -> AsyncIterator[Controller]:
    """One of the operator's controllers, as the leader."""
    site = make_site(time, served, controller_runtime.LeaseSettings("default"))
    (made,) = operator_process.new_controllers(name, site, operator_process.OperatorSettings())
    running = asyncio.ensure_future(operator_process.run([made], site))
    try:
        yield made
        assert not running.done(), running.exception()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _told(people: client.Client) -> list[tuple[str, str, str]]:
    """Events about the Lease."""
    found = (await people.list(resources.EVENTS.untyped(), request_builders.ListOptions("default"))).items
    told = [
        (item["type"], item["reason"], item["message"]) for item in found if item["involvedObject"]["kind"] == "Lease"
    ]
    return told


@pytest.mark.parametrize("name", ["machine_pool", "eks_anywhere", "lattice"])
def test_a_kind_that_is_not_served_is_told_of_until_it_is(name: str, caplog: pytest.LogCaptureFixture) -> None:
    time = clock.VirtualClock()

    async def play() -> None:
        served = server.Server(time)
        people = make_site(time, served).api
        async with _operating(time, served, name) as controller:
            await time.sleep(20.0)
            missing = "API group cluster.x-k8s.io: expected v1beta2 or v1beta1, the server serves none"
            assert controller.check_ready() == missing
            assert await _told(people) == [("Warning", "ControllerNotReady", f"{name}: {missing}")]
            old = management_cluster.definition("cluster.x-k8s.io", "MachineSet", "v1alpha4")
            await people.create(DEFINITIONS, old)
            await time.sleep(20.0)
            assert controller.check_ready().endswith("the server serves cluster.x-k8s.io/v1alpha4")
            await people.create(DEFINITIONS, management_cluster.definition("cluster.x-k8s.io", "Cluster", "v1beta2"))
            await time.sleep(40.0)
            reason = controller.check_ready()
            assert any(words in reason for words in (" not found", "404", "v1alpha1: not served")), reason
            for kind in CLUSTER_API_KINDS[1:]:
                await people.create(DEFINITIONS, management_cluster.definition("cluster.x-k8s.io", kind, "v1beta2"))
            for group, kind, version in OWN_KINDS:
                await people.create(DEFINITIONS, management_cluster.definition(group, kind, version))
            await people.create(resources.NAMESPACES, {"metadata": {"name": "eksa-system"}})
            await time.sleep(120.0)
            assert controller.check_ready() == ""
            assert ("Normal", "ControllerReady", f"{name} is ready") in await _told(people)

    time.run(play())
    assert f"controller not ready: controller={name} reason=API group cluster.x-k8s.io: expected" in caplog.text


def test_a_namespace_that_does_not_exist_is_told_of_until_it_does() -> None:
    time = clock.VirtualClock()

    async def play() -> None:
        served = server.Server(time)
        people = make_site(time, served).api
        for kind in CLUSTER_API_KINDS:
            await people.create(DEFINITIONS, management_cluster.definition("cluster.x-k8s.io", kind, "v1beta2"))
        await people.create(DEFINITIONS, management_cluster.definition(*OWN_KINDS[0]))
        async with _operating(time, served, "eks_anywhere") as controller:
            await time.sleep(20.0)
            assert controller.check_ready() == "namespace eksa-system does not exist"
            assert [message for _, _, message in await _told(people)] == [f"eks_anywhere: {controller.check_ready()}"]
            await people.create(resources.NAMESPACES, {"metadata": {"name": "eksa-system"}})
            await time.sleep(120.0)
            assert controller.check_ready() == ""

    time.run(play())


def test_what_stays_away_is_told_again_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    time = clock.VirtualClock()

    async def play() -> None:
        served = server.Server(time)
        async with _operating(time, served, "lattice"):
            await time.sleep(3600.0)
            assert 10 <= caplog.text.count("controller not ready") <= 13

    time.run(play())
