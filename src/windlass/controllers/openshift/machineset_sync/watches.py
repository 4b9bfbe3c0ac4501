"""MachineSet sync watches: MachineSets, Machines, templates, OpenShift's own sync; a pair's key is its name.

Template kinds are discovered and watched from the first MachineSet that refers to one.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from windlass import clock
from windlass.controllers import controller_interface, controller_runtime
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machineset_sync import (
    field_ownership,
    machine_set_conversion,
    model,
    provider_specs,
)
from windlass.kube import client, discovery, errors, request_builders, time_formats
from windlass.kube.models import meta
from windlass.kube.resources import CLUSTERS, LEASES, Resource, Unstructured

Json = Mapping[str, Any]


def machine_sets(api: machine_apis.MachineApi, version: str) -> Resource[Unstructured]:
    """MachineSets of an API, of Cluster API in a version."""
    return api.machine_sets(version if api is machine_apis.CLUSTER_API else "")


def machines(api: machine_apis.MachineApi, version: str) -> Resource[Unstructured]:
    return api.machines(version if api is machine_apis.CLUSTER_API else "")


class MachineMetadata(meta.Object, frozen=True):
    """Metadata of a Machine: owner and delete mark."""


class MachineSetPairWatches:
    """Informers of the pairs' MachineSets, Machines and templates."""

    def __init__(
        self, api: client.Client, followed: controller_runtime.InformerSet, cluster: str, version: str
    ) -> None:
        """`version` is the served one of Cluster API."""
        self._api, self._cluster, self._version = api, cluster, version
        follow = followed.watch
        self._requests = _RequestLog(api.clock)
        within = {
            machine_api: request_builders.ListOptions(machine_api.namespace)
            for machine_api in machine_apis.MACHINE_APIS
        }
        self._sets = {
            each: follow(
                api, machine_sets(each, version), self._keys_of_set(each), within[each], {"template": _template_keys}
            )
            for each in machine_apis.MACHINE_APIS
        }
        self._machines = {
            each: follow(
                api,
                machines(each, version).read_as(MachineMetadata),
                self._keys_of_machine(each),
                within[each],
                {"set": _owning_sets},
            )
            for each in machine_apis.MACHINE_APIS
        }
        clusters = CLUSTERS.at(machine_sets(machine_apis.CLUSTER_API, version).api_version).untyped()
        self._clusters = follow(api, clusters, lambda _: self.all_keys(), within[machine_apis.CLUSTER_API])
        self.templates = InfrastructureTemplates(api, followed, self._affected_keys)

    def pair(self, name: str) -> machine_apis.MachineSetPair:
        item, other = (self._find_set(api, name) for api in machine_apis.MACHINE_APIS)
        if other is not None and self._version == machine_apis.V1BETA1:
            other = machine_apis.to_v1beta2(other)
        return machine_apis.MachineSetPair(name, item, other)

    def requests(self, pair: machine_apis.MachineSetPair) -> model.AutoscalerRequests:
        """What the autoscaler wrote to a mirror and its Machines lately."""
        return self._requests.find(pair)

    def forget_requests(self, name: str, done: model.AutoscalerRequests) -> None:
        self._requests.forget(name, done)

    def all_keys(self) -> list[str]:
        """The names of all MachineSets."""
        return sorted({_object_name(item) for followed in self._sets.values() for item in followed.store})

    async def observe(self, pair: machine_apis.MachineSetPair) -> model.ObservedMachineSetPair:
        """Facts for one reconcile, without Machines."""
        cluster, error = self._cluster_name(pair), ""
        named: list[model.InfrastructureTemplate | None] = []
        for reference in _list_template_references(pair):
            try:
                named.append(await self.templates.find(*reference))
            except (controller_interface.RequeueError, errors.KubeError) as unread:
                error = f"{reference[1]}: {unread}"
        found = {
            (infrastructure_template.kind, infrastructure_template.name): infrastructure_template
            for infrastructure_template in (*named, *self.templates.list_made(pair.name))
            if infrastructure_template
        }
        return model.ObservedMachineSetPair(
            pair,
            cluster,
            self._clusters.store.get(f"{machine_apis.CLUSTER_API.namespace}/{cluster}"),
            tuple(found.values()),
            error,
        )

    def knows_kinds(self, pair: machine_apis.MachineSetPair) -> bool:
        """True if the server serves every template kind that a pair references."""
        return all(self.templates.knows(group, kind) for group, kind, _ in _list_template_references(pair))

    def has_unequal_delete_marks(self, name: str) -> bool:
        """True if a Machine of a set is marked for deletion and its counterpart is not."""
        marked = [
            {
                (machine_metadata.meta.name, mark)
                for machine_metadata in self._machines[api].store.find("set", name)
                if (mark := _delete_mark(machine_metadata, api))
            }
            for api in machine_apis.MACHINE_APIS
        ]
        return marked[0] != marked[1]

    async def read_machines(self, pair: machine_apis.MachineSetPair) -> tuple[model.MachineTwins, ...]:
        """Read the pair's Machines from the server, so that marks set before a scale-down are included."""
        found: dict[machine_apis.MachineApi, dict[str, Json]] = {}
        for api in machine_apis.MACHINE_APIS:
            selector = machine_set_conversion.format_selector(model.get_spec(pair.get(api)).get("selector") or {})
            within = request_builders.ListOptions(api.namespace, labels=selector)
            listed = (await self._api.list(machines(api, self._version), within)).items
            found[api] = {item["metadata"]["name"]: item for item in listed if _belongs_to_set(item, pair.name)}
        entry, other = (found[api] for api in machine_apis.MACHINE_APIS)
        return tuple(
            model.MachineTwins(name, entry.get(name), other.get(name)) for name in sorted(entry.keys() | other.keys())
        )

    def _keys_of_set(self, api: machine_apis.MachineApi) -> Callable[[Json], Iterable[str]]:
        def keys(machine_set: Json) -> list[str]:
            # Informers tell the object before a change, too, which is no news.
            if api is machine_apis.CLUSTER_API and self._find_set(api, _object_name(machine_set)) is machine_set:
                self._requests.note_replicas(machine_set)
            return _set_keys(machine_set)

        return keys

    def _keys_of_machine(self, api: machine_apis.MachineApi) -> Callable[[MachineMetadata], Iterable[str]]:
        def keys(machine: MachineMetadata) -> list[str]:
            sets = _owning_sets(machine)
            twin, mirror = (self._find_machine(each, machine.meta.name) for each in machine_apis.MACHINE_APIS)
            if twin is not None and mirror is not None and (machine is twin or machine is mirror):
                held = _delete_mark(twin, machine_apis.MACHINE_API)
                self._requests.note_marks(mirror, held, sets if machine is mirror else ())
            return sets

        return keys

    def _find_set(self, api: machine_apis.MachineApi, name: str) -> Json | None:
        return self._sets[api].store.get(f"{api.namespace}/{name}")

    def _find_machine(self, api: machine_apis.MachineApi, name: str | None) -> MachineMetadata | None:
        return self._machines[api].store.get(f"{api.namespace}/{name}")

    def _cluster_name(self, pair: machine_apis.MachineSetPair) -> str:
        own = model.get_spec(pair.cluster_api).get("clusterName")
        return self._cluster or own or model.get_labels(pair.machine_api).get(model.CLUSTER_LABEL) or ""

    def _affected_keys(self, template: Json) -> Iterable[str]:
        """Keys of the set that a template was generated for, and of those that reference it."""
        if label := model.get_labels(template).get(model.SET_LABEL):
            yield label
        for followed in self._sets.values():
            for item in followed.store.find("template", f"{template.get('kind')}/{_object_name(template)}"):
                yield _object_name(item)


def _list_template_references(pair: machine_apis.MachineSetPair) -> Iterable[tuple[str, str, str]]:
    """(group, kind, name) of the templates of a pair; the name is empty for a template by content."""
    value = _provider_spec_value(pair.machine_api)
    if value and not machine_set_conversion.is_foreign_provider_spec(value):
        group = str(value.get("apiVersion") or "").partition("/")[0]
        yield group, str(value.get("kind") or ""), str((value.get("metadata") or {}).get("name") or "")
        if value.get("spec"):
            yield group, str(value.get("kind") or ""), machine_set_conversion.template_name(pair.name, value["spec"])
    machine = (model.get_spec(pair.cluster_api).get("template") or {}).get("spec") or {}
    reference = machine.get("infrastructureRef")
    if reference and not provider_specs.is_not_converted(pair.cluster_api):
        group = reference.get("apiGroup") or str(reference.get("apiVersion") or "").partition("/")[0]
        yield group, reference.get("kind") or "", reference.get("name") or ""


def _provider_spec_value(machine_set: Json | None) -> Json:
    machine = (model.get_spec(machine_set).get("template") or {}).get("spec") or {}
    return (machine.get("providerSpec") or {}).get("value") or {}


def _template_keys(machine_set: Json) -> list[str]:
    pair = machine_apis.MachineSetPair("", machine_set, machine_set)
    return [f"{kind}/{name}" for _, kind, name in _list_template_references(pair) if name]


def _set_keys(machine_set: Json) -> list[str]:
    return [_object_name(machine_set)]


def _object_name(body: Json) -> str:
    name: str = body["metadata"]["name"]
    return name


def _owning_sets(machine: MachineMetadata) -> list[str]:
    owners = [owner.name for owner in machine.meta.owner_references or () if owner.kind == "MachineSet" and owner.name]
    label = (machine.meta.labels or {}).get(model.SET_LABEL)
    return sorted({*owners, *([label] if label else ())})


def _belongs_to_set(machine: Json, name: str) -> bool:
    owners = model.get_metadata(machine).get("ownerReferences") or ()
    is_owned = any(item.get("kind") == "MachineSet" and item.get("name") == name for item in owners)
    return is_owned or model.get_labels(machine).get(model.SET_LABEL) == name


def _delete_mark(machine: MachineMetadata, api: machine_apis.MachineApi) -> str | None:
    if machine.meta.deletion_timestamp is not None:
        return None
    return (machine.meta.annotations or {}).get(api.delete_machine)


_REQUEST_AGE_S = 60.0
"""Age after which a request that could not be carried over is forgotten; the autoscaler repeats what it needs."""


class _RequestLog:
    """What the autoscaler wrote to mirrors, noted as the watch delivers it.

    OpenShift's own sync reverts a mirror within milliseconds, so that the store may never show it to a reconcile.
    """

    def __init__(self, time: clock.Clock) -> None:
        self._clock = time
        self._replicas: dict[str, tuple[int, float]] = {}
        self._marks: dict[str, dict[str, tuple[str | None, float]]] = {}
        """By set and Machine; None: the mark was removed."""
        self._copied: set[str] = set()
        """Machines that were marked in both APIs at once: a removal from the mirror is the autoscaler's then."""

    def note_replicas(self, mirror: Json) -> None:
        state = field_ownership.replicas_state(mirror)
        if field_ownership.is_autoscalers(state):
            self._replicas[_object_name(mirror)] = (state.replicas, self._clock.monotonic_s())

    def note_marks(self, mirror: MachineMetadata, held: str | None, sets: Iterable[str]) -> None:
        """Note the marks of a Machine; `held` is that of Machine API's. `sets` are given if the mirror has changed."""
        name, mark = mirror.meta.name or "", _delete_mark(mirror, machine_apis.CLUSTER_API)
        is_removal = mark is None and held is not None and name in self._copied
        if is_removal or (mark is not None and held is None):
            for machine_set in sets:
                self._marks.setdefault(machine_set, {})[name] = (mark, self._clock.monotonic_s())
        if mark is not None and held is not None:
            self._copied.add(name)
        else:
            self._copied.discard(name)

    def find(self, pair: machine_apis.MachineSetPair) -> model.AutoscalerRequests:
        oldest_s = self._clock.monotonic_s() - _REQUEST_AGE_S
        size, noted_s = self._replicas.get(pair.name, (None, 0.0))
        marks = {name: mark for name, (mark, at_s) in self._marks.get(pair.name, {}).items() if at_s >= oldest_s}
        return model.AutoscalerRequests(
            size if noted_s >= oldest_s else None,
            {name: mark for name, mark in marks.items() if mark is not None},
            frozenset(name for name, mark in marks.items() if mark is None),
        )

    def forget(self, machine_set: str, done: model.AutoscalerRequests) -> None:
        """Forget requests that are carried over; newer ones stay."""
        if self._replicas.get(machine_set, (None, 0.0))[0] == done.replicas:
            self._replicas.pop(machine_set, None)
        marks: dict[str, str | None] = {**done.marked, **dict.fromkeys(done.unmarked)}
        noted = self._marks.get(machine_set, {})
        left = {name: entry for name, entry in noted.items() if name not in marks or marks[name] != entry[0]}
        self._marks.pop(machine_set, None)
        if left:
            self._marks[machine_set] = left


_OTHER_SYNC_LEASE = "machine-api-migration-leader"
"""Lease of OpenShift's own sync, machine-api-migration of cluster-capi-operator, in Cluster API's namespace."""

_OTHER_SYNC_INTERVAL_S = 10.0

_OTHER_SYNC_GONE_S = 600.0
"""Age of that Lease after which OpenShift's own sync is gone, not restarted."""

_LEASES = LEASES.untyped()

_log = logging.getLogger(__name__)


class OtherSync:
    """Whether OpenShift's own sync is running, read from its Lease.

    Two that mirror the same fields would never end. A Lease that cannot be read is not absent: until it was read,
    nothing is reconciled.
    """

    def __init__(self, api: client.Client) -> None:
        self._api = api
        self.is_running: bool | None = None
        """None before the Lease was read."""
        self.error = ""
        """Why the Lease cannot be read; empty if it can."""

    async def wait_read(self) -> None:
        while self.is_running is None:
            await self._read()
            if self.is_running is None:
                await self._api.clock.sleep(_OTHER_SYNC_INTERVAL_S)

    async def run(self, on_change: Callable[[], None]) -> None:
        """Read the Lease again and again; `on_change` is called when the sync has come or gone."""
        while True:
            await self._api.clock.sleep(_OTHER_SYNC_INTERVAL_S)
            before = self.is_running
            await self._read()
            if self.is_running is not before:
                on_change()

    async def _read(self) -> None:
        at = f"{machine_apis.CLUSTER_API.namespace}/{_OTHER_SYNC_LEASE}"
        try:
            lease = await self._api.get(_LEASES, _OTHER_SYNC_LEASE, machine_apis.CLUSTER_API.namespace)
        except errors.NotFound:
            self._set(False, at)
        except errors.KubeError as error:
            self.error = f"cannot read Lease {at}, which tells whether OpenShift's own sync is running: {error}"
            _log.warning("%s", self.error)
        else:
            self._set(_is_in_use(model.get_spec(lease), self._api.clock.now_s()), at)

    def _set(self, is_running: bool, at: str) -> None:
        self.error = ""
        if is_running and not self.is_running:
            _log.info("OpenShift's own sync is running, only sizes and delete marks are carried over: lease=%s", at)
        if not is_running and self.is_running:
            _log.info("OpenShift's own sync is gone, MachineSets are synchronized here: lease=%s", at)
        self.is_running = is_running


def _is_in_use(spec: Json, now_s: float) -> bool:
    """True if a Lease was renewed lately. One that cannot be read is in use."""
    if not spec.get("renewTime"):
        return bool(spec.get("holderIdentity"))
    try:
        renewed_s = time_formats.parse_server_time(spec["renewTime"])
    except ValueError:
        return True
    return now_s < renewed_s + max(_OTHER_SYNC_GONE_S, spec.get("leaseDurationSeconds") or 0.0)


_SYNC_TIMEOUT_S = 10.0

_SYNC_POLL_S = 0.05


class InfrastructureTemplates:
    """Informers of template kinds. `concerned` maps a template to the keys to reconcile."""

    def __init__(
        self,
        api: client.Client,
        followed: controller_runtime.InformerSet,
        concerned: Callable[[Json], Iterable[str]],
    ) -> None:
        self._api, self._informers, self._affected_keys = api, followed, concerned
        self._kinds: dict[tuple[str, str], controller_runtime.WatchedResource[Unstructured]] = {}

    async def find(self, group: str, kind: str, name: str) -> model.InfrastructureTemplate | None:
        """A template by name; None if it or its kind does not exist."""
        followed = await self._watch(group, kind)
        there = None if followed is None else followed.store.get(f"{machine_apis.CLUSTER_API.namespace}/{name}")
        return None if there is None else _parse_template(there)

    def list_made(self, machine_set: str) -> list[model.InfrastructureTemplate]:
        """Templates generated for a set, of all referenced kinds."""
        return [
            _parse_template(item)
            for followed in self._kinds.values()
            for item in followed.store.find("set", machine_set)
        ]

    def knows(self, group: str, kind: str) -> bool:
        """True if a kind is watched. A kind that the server lacks is discovered later."""
        return (group, kind) in self._kinds

    async def resource(self, api_version: str, kind: str) -> Resource[Unstructured]:
        """The resource of a template kind."""
        followed = await self._watch(api_version.partition("/")[0], kind)
        if followed is None:
            raise controller_interface.RequeueError(f"the server has no {kind} in {api_version}")
        return followed.informer.resource

    async def _watch(self, group: str, kind: str) -> controller_runtime.WatchedResource[Unstructured] | None:
        if (group, kind) not in self._kinds:
            resource = await self._discover(group, kind)
            if resource is None:
                return None
            if (group, kind) not in self._kinds:
                within = request_builders.ListOptions(machine_apis.CLUSTER_API.namespace)
                self._kinds[group, kind] = self._informers.watch(
                    self._api, resource, self._affected_keys, within, {"set": _owning_set_keys}, required=False
                )
        followed = self._kinds[group, kind]
        if not followed.informer.synced:
            try:
                await clock.run_with_timeout(self._api.clock, _SYNC_TIMEOUT_S, _wait_read(self._api.clock, followed))
            except TimeoutError:
                raise controller_interface.RequeueError(followed.sync_error) from None
        return followed

    async def _discover(self, group: str, kind: str) -> Resource[Unstructured] | None:
        for version in await discovery.list_versions(self._api, group):
            if (resource := await discovery.find_resource(self._api, version, kind)) is not None:
                return resource
        return None


async def _wait_read(time: clock.Clock, followed: controller_runtime.WatchedResource[Unstructured]) -> None:
    """Wait until a kind is read. RequeueError once it cannot be: nothing but its templates depends on it."""
    while not followed.informer.synced:
        if followed.informer.last_error is not None:
            raise controller_interface.RequeueError(followed.sync_error)
        await time.sleep(_SYNC_POLL_S)


def _parse_template(body: Json) -> model.InfrastructureTemplate:
    return model.InfrastructureTemplate(
        body.get("apiVersion") or "",
        body.get("kind") or "",
        model.get_metadata(body).get("name") or "",
        model.get_labels(body),
        model.is_deleting(body),
        model.get_spec(body),
    )


def _owning_set_keys(body: Json) -> list[str]:
    label = model.get_labels(body).get(model.SET_LABEL)
    return [label] if label else []
