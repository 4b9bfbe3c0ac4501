"""Client and informers against a real kube-apiserver, where there is one, and against the embedded one, always."""

import asyncio
import contextlib
import itertools
import random
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from testbed import bed, fixtures, sharing
from tests.kube.faulty_transport import Faulty
from tests.kube.test_informers import Log
from windlass import clock
from windlass.apiserver import embedded_server, server
from windlass.kube import (
    auth,
    client,
    discovery,
    errors,
    events,
    flow_control,
    informers,
    list_watch,
    reflector,
    resources,
    rest_config,
    store,
    transport,
    unstructured,
)
from windlass.kube.models import core
from windlass.kube.request_builders import DeleteOptions, ListOptions, WriteOptions
from windlass.runtime.leader_election import LeaderElectionSettings as ElectionSettings
from windlass.runtime.leader_election import LeaderElector

# Connections are cut on purpose here; on a busy machine the loop may be closed before a socket is told of it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

CONFIG_MAPS = resources.CONFIG_MAPS
PATIENCE_S = 180.0
HASTY = flow_control.Backoff(0.02, 0.2)
ENOUGH_HARM, ENOUGH_CUTS = 6, 6


@contextlib.asynccontextmanager
async def connect(kubeconfig: Path | None) -> AsyncIterator[transport.Transport]:
    if kubeconfig is None:
        real = clock.RealClock()
        yield embedded_server.InProcessTransport(server.Server(real), real)
        return
    async with rest_config.load_rest_config(clock.RealClock(), str(kubeconfig)).connect() as carrier:
        yield carrier


def client_of(carrier: transport.Transport, **settings: object) -> client.Client:
    return client.Client(carrier, clock.RealClock(), client.ClientSettings(qps=0, **settings), random.Random(7))  # type: ignore[arg-type]


@pytest_asyncio.fixture(params=["embedded", "real"])
async def carrier(request: pytest.FixtureRequest) -> AsyncIterator[transport.Transport]:
    kubeconfig = request.getfixturevalue("real_api_server") if request.param == "real" else None
    async with connect(kubeconfig) as found:
        yield found


@pytest_asyncio.fixture
async def namespace(carrier: transport.Transport) -> str:
    return await make_namespace(client_of(carrier))


async def make_namespace(api: client.Client) -> str:
    name = f"kube-{secrets.token_hex(4)}"
    await api.create(resources.NAMESPACES, {"metadata": {"name": name}})
    return name


def config_map(name: str, namespace: str, value: str = "") -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": namespace}, "data": {"v": value}}


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await check():
            await asyncio.sleep(0.02)


# Verbs


async def test_an_object_is_created_read_changed_and_deleted(carrier: transport.Transport, namespace: str) -> None:
    api = client_of(carrier)
    made = await api.create(CONFIG_MAPS, config_map("a", namespace, "1"))
    assert made.data == {"v": "1"}
    with pytest.raises(errors.AlreadyExists):
        await api.create(CONFIG_MAPS, config_map("a", namespace))
    raw = await api.get(CONFIG_MAPS.untyped(), "a", namespace)
    assert raw["kind"] == "ConfigMap"
    changed = await api.merge_patch(CONFIG_MAPS, "a", {"data": {"w": "2"}}, namespace)
    assert changed.data == {"v": "1", "w": "2"}
    with pytest.raises(errors.Conflict):
        await api.update(CONFIG_MAPS, raw)
    await api.json_patch(CONFIG_MAPS, "a", [{"op": "remove", "path": "/data/v"}], namespace)
    with pytest.raises(errors.Invalid):
        await api.json_patch(CONFIG_MAPS, "a", [{"op": "test", "path": "/data/w", "value": "9"}], namespace)
    with pytest.raises(errors.Conflict):
        await api.delete(CONFIG_MAPS, "a", namespace, DeleteOptions(uid="another"))
    await api.delete(CONFIG_MAPS, "a", namespace, DeleteOptions(uid=made.meta.uid or ""))
    with pytest.raises(errors.NotFound):
        await api.get(CONFIG_MAPS, "a", namespace)


async def test_a_dry_client_leaves_no_trace(carrier: transport.Transport, namespace: str) -> None:
    dry = client_of(carrier, writer=WriteOptions("me", dry_run=True))
    await dry.create(CONFIG_MAPS, config_map("a", namespace))

    with pytest.raises(errors.NotFound):
        await dry.get(CONFIG_MAPS, "a", namespace)


async def test_apply_owns_what_it_says_and_conflicts_are_told(carrier: transport.Transport, namespace: str) -> None:
    one = client_of(carrier, writer=WriteOptions("one"))
    two = client_of(carrier, writer=WriteOptions("two"))
    await one.apply(CONFIG_MAPS, config_map("a", namespace, "1"))
    with pytest.raises(errors.Conflict) as caught:
        await two.apply(CONFIG_MAPS, config_map("a", namespace, "2"))
    assert unstructured.parse_apply_conflicts(caught.value) == [
        unstructured.ApplyConflict(".data.v", unstructured.FieldOwner("one", "Apply"))
    ]
    await two.apply(CONFIG_MAPS, config_map("a", namespace, "2"), force=True)
    raw = await one.get(CONFIG_MAPS.untyped(), "a", namespace)
    assert [owner.manager for owner in unstructured.find_field_owners(raw, ("data", "v"))] == ["two"]


async def test_a_list_is_selected_and_read_in_pages(carrier: transport.Transport, namespace: str) -> None:
    api = client_of(carrier, page_size=2)
    for i in range(5):
        labelled = config_map(f"n{i}", namespace)
        labelled["metadata"] = {"name": f"n{i}", "namespace": namespace, "labels": {"odd": str(i % 2)}}
        await api.create(CONFIG_MAPS, labelled)

    objects = await api.list(CONFIG_MAPS, ListOptions(namespace, "odd"))
    assert [each.meta.name for each in objects.items] == ["n0", "n1", "n2", "n3", "n4"]
    assert len((await api.list(CONFIG_MAPS.untyped(), ListOptions(namespace, "odd=1"))).items) == 2
    object_list = await api.list(CONFIG_MAPS, ListOptions(namespace, fields="metadata.name=n3"))
    assert [each.meta.name for each in object_list.items] == ["n3"]


async def test_a_watch_goes_on_from_a_list(carrier: transport.Transport, namespace: str) -> None:
    api = client_of(carrier)
    version = (await api.list(CONFIG_MAPS, ListOptions(namespace))).resource_version
    await api.create(CONFIG_MAPS, config_map("a", namespace))
    await api.delete(CONFIG_MAPS, "a", namespace)

    changes = api.watch(CONFIG_MAPS, ListOptions(namespace, fields="metadata.name=a"), resource_version=version)
    async with contextlib.aclosing(changes), asyncio.timeout(PATIENCE_S):
        seen = [(await anext(changes)).type for _ in range(2)]
    assert seen == [list_watch.ADDED, list_watch.DELETED]


async def test_kinds_and_versions_are_discovered(carrier: transport.Transport) -> None:
    api = client_of(carrier)

    assert await discovery.find_resource(api, "v1", "ConfigMap") == CONFIG_MAPS.untyped()
    assert await discovery.find_resource(api, "apps/v1", "Deployment") == resources.DEPLOYMENTS.untyped()
    assert await discovery.find_resource(api, "v1", "Nonsense") is None
    assert await discovery.find_resource(api, "nowhere.io/v1", "Nonsense") is None
    assert await discovery.has_resource(api, resources.DEPLOYMENTS, "scale")
    assert (await discovery.list_versions(api, "apps"))[0] == "apps/v1"


async def test_events_are_taken_as_they_are_written(carrier: transport.Transport, namespace: str) -> None:
    api = client_of(carrier)
    recorder = events.EventRecorder(api, "windlass", window_s=0.0)
    writing = asyncio.create_task(recorder.run())
    for _ in range(3):
        recorder.record(
            events.InvolvedObject("v1", "ConfigMap", "a", namespace), events.WARNING, "Odd", "something is odd"
        )
    await recorder.wait_written()
    writing.cancel()

    (event,) = (await api.list(resources.EVENTS, ListOptions(namespace, fields="reason=Odd"))).items
    assert (event.count, event.message, event.type) == (3, "something is odd", "Warning")
    assert recorder.dropped == 0


# Informers


class Followed:
    """An informer of a namespace's config maps, behind a transport that gets in the way."""

    def __init__(self, carrier: transport.Transport, namespace: str, **settings: object) -> None:
        self.way = Faulty(carrier, random.Random(11))
        self.store: store.Store[core.ConfigMap] = store.Store(handlers=[Log()])
        self.informer = informers.Informer(
            client_of(self.way),
            CONFIG_MAPS,
            self.store,
            ListOptions(namespace),
            reflector.ReflectorSettings(backoff=HASTY, page_size=10, **settings),  # type: ignore[arg-type]
        )
        self.api = client_of(carrier)
        self._namespace = namespace

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.informer.run())
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.informer.wait_synced()
            yield
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def is_current(self) -> bool:
        """The store holds what the server holds."""
        listed = await self.api.list(CONFIG_MAPS, ListOptions(self._namespace))
        return {each.meta.key: each for each in listed.items} == {each.meta.key: each for each in self.store}


async def churn(api: client.Client, namespace: str, changes: int, pause_s: float = 0.0, seed: int = 5) -> None:
    rng = random.Random(seed)
    for i in range(changes):
        name = f"n{rng.randrange(30)}"
        try:
            if rng.random() < 0.3:
                await api.delete(CONFIG_MAPS, name, namespace)
            else:
                await api.apply(CONFIG_MAPS, config_map(name, namespace, f"{seed}.{i}"), force=True)
        except errors.NotFound:
            continue
        if pause_s:
            await asyncio.sleep(pause_s)


@pytest.mark.parametrize("streaming", [True, False])
async def test_an_informer_survives_all_mischief(carrier: transport.Transport, namespace: str, streaming: bool) -> None:
    """However often it is asked: a server that told it to wait, or a busy machine, only makes it take longer."""
    api = client_of(carrier)
    await churn(api, namespace, 40)
    followed = Followed(carrier, namespace, streaming=streaming)
    followed.way.mischief = 0.2
    async with followed.running():
        async with asyncio.timeout(PATIENCE_S):
            for seed in itertools.count():
                is_following = followed.way.has_streams
                await churn(api, namespace, 20 if is_following else 1, pause_s=0.001, seed=seed)
                if followed.way.harmed >= ENOUGH_HARM and followed.way.cuts >= ENOUGH_CUTS:
                    break
                if is_following:
                    followed.way.cut()
                else:  # a stream that was cut breaks at the next change; then it is some time until there is another
                    await asyncio.sleep(0.01)
        followed.way.mischief = 0.0
        await eventually(followed.is_current)


@pytest.fixture(scope="module")
def own_bed() -> object:
    """A control plane of our own: it is going to be killed."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.running() as found:
        yield found


async def test_an_informer_survives_the_server_being_killed_and_its_history_forgotten(own_bed: bed.Bed) -> None:
    async with connect(own_bed.kubeconfig) as carrier:
        api = client_of(carrier)
        namespace = await make_namespace(api)
        await churn(api, namespace, 40)
        followed = Followed(carrier, namespace)
        async with followed.running():
            await eventually(followed.is_current)
            followed.way.down = True
            followed.way.cut()
            await churn(api, namespace, 60)
            own_bed.compact()
            await asyncio.to_thread(own_bed.kill, "kube-apiserver")
            await asyncio.sleep(0.5)
            await asyncio.to_thread(own_bed.start, "kube-apiserver")
            followed.way.down = False
            await eventually(followed.is_current)
            assert followed.informer.counts.relists == 1
            await asyncio.to_thread(own_bed.kill, "kube-apiserver")
            await asyncio.to_thread(own_bed.start, "kube-apiserver")
            await churn(api, namespace, 20)
            await eventually(followed.is_current)


class Counting(auth.FileCredentials):
    """Counts how often the server refused."""

    rejected = 0

    def reject(self, credential: auth.Credential) -> None:
        self.rejected += 1
        super().reject(credential)


async def test_an_informer_survives_its_token_being_replaced(own_bed: bed.Bed, tmp_path: Path) -> None:
    """The token of a service account that is deleted and made anew is no longer good."""
    config = rest_config.load_rest_config(clock.RealClock(), str(own_bed.kubeconfig))
    file = tmp_path / "token"
    credentials = Counting(clock.RealClock(), token=file)
    limited = rest_config.RestConfig(config.server, config.tls, credentials)
    async with config.connect() as carrier, limited.connect() as signed:
        api = client_of(carrier)
        namespace = await make_namespace(api)
        await grant(api, namespace)
        first = await issue_token(api, namespace)
        file.write_text(first)
        followed = Followed(signed, namespace)
        followed.api = api
        async with followed.running():
            file.write_text(await issue_token(api, namespace))
            await wait_until_refused(config, first, namespace)
            followed.way.cut()
            await churn(api, namespace, 30)
            await eventually(followed.is_current)
    assert credentials.rejected == 1


async def wait_until_refused(config: rest_config.RestConfig, token: str, namespace: str) -> None:
    """For some seconds the server remembers that a token was good."""
    stale = rest_config.RestConfig(config.server, config.tls, auth.StaticCredentials(auth.bearer_credential(token)))
    async with stale.connect() as signed:

        async def is_refused() -> bool:
            try:
                await client_of(signed).list(CONFIG_MAPS, ListOptions(namespace))
            except errors.Unauthorized:
                return True
            return False

        await eventually(is_refused)


SERVICE_ACCOUNTS = resources.Resource("v1", "serviceaccounts", "ServiceAccount", True, resources.Unstructured)


async def grant(api: client.Client, namespace: str) -> None:
    """Let the service account read config maps."""
    group = "rbac.authorization.k8s.io"
    roles = resources.Resource(f"{group}/v1", "roles", "Role", True, resources.Unstructured)
    bindings = resources.Resource(f"{group}/v1", "rolebindings", "RoleBinding", True, resources.Unstructured)
    metadata = {"name": "reader", "namespace": namespace}
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
    await api.create(SERVICE_ACCOUNTS, {"metadata": metadata})
    await api.create(roles, {"metadata": metadata, "rules": [rule]})
    subject = {"kind": "ServiceAccount", **metadata}
    reference = {"apiGroup": group, "kind": "Role", "name": "reader"}
    await api.create(bindings, {"metadata": metadata, "subjects": [subject], "roleRef": reference})


async def issue_token(api: client.Client, namespace: str) -> str:
    """A new token of the service account, which is made anew, so that the tokens before it expire."""
    await api.delete(SERVICE_ACCOUNTS, "reader", namespace)
    await api.create(SERVICE_ACCOUNTS, {"metadata": {"name": "reader", "namespace": namespace}})
    path = SERVICE_ACCOUNTS.path(namespace, "reader", "token")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": None}}
    request = transport.Request(
        "POST", path, headers={"content-type": "application/json"}, body=msgspec.json.encode(body)
    )
    token: str = msgspec.json.decode(await api.call(request))["status"]["token"]
    return token


async def test_one_leads_at_a_time(carrier: transport.Transport, namespace: str) -> None:
    limits = ElectionSettings(retry_s=0.1)  # long enough for a busy machine: who has led releases the lease at once
    elections = [LeaderElector(client_of(carrier), namespace, "lease", f"c{i}", limits) for i in range(3)]
    led: list[str] = []

    async def stand(election: LeaderElector) -> None:
        async def lead() -> None:
            assert [leader_elector.is_leader for leader_elector in elections].count(True) == 1
            led.append(election.holder)
            await asyncio.sleep(0.3)

        await election.run(lead)

    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(stand(election) for election in elections))
    assert sorted(led) == ["c0", "c1", "c2"]
    lease = await client_of(carrier).get(resources.LEASES, "lease", namespace)
    assert lease.spec is not None
    assert not lease.spec.holder_identity
    assert lease.spec.lease_transitions == 2
