"""Pairs of MachineSets on the embedded server, in virtual time, with the controller in it.

Machine API and Cluster API are there as kinds. Nobody runs machines, unless `World.pausing` is asked for: then either
API's MachineSets say that they are paused, as their controllers would. `World.settle` lets everything happen that the
last change brings about.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

from tests.controllers.machine_pool.management_cluster import definition
from tests.controllers.openshift import controller_harness
from tests.controllers.openshift.controller_harness import Between, machine_sets_definition, nothing
from tests.controllers.worker_pool_cluster import DEFINITIONS
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import CLUSTER_API, MACHINE_API
from windlass.controllers.openshift.machineset_sync import controller, model
from windlass.controllers.openshift.machineset_sync.model import MachineSetSyncSettings
from windlass.kube import errors, request_builders, resources, unstructured

Json = dict[str, Any]
T = TypeVar("T")

INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io"
CLUSTER = "cluster-foo"
NAME = "foo"
CLUSTERS = resources.CLUSTERS.untyped()
TEMPLATES = resources.Resource(f"{INFRASTRUCTURE}/v1beta1", "foomachinetemplates", "FooMachineTemplate", True, Json)
AUTOSCALER, OPERATOR, ADMINISTRATOR = machine_apis.AUTOSCALER_MANAGER, machine_apis.OPERATOR_MANAGER, "kubectl-edit"


def play(story: Callable[["World"], Awaitable[T]]) -> T:
    return controller_harness.play(World, story)


def provider_spec(instance_type: str = "m6i.xlarge", template: str = "") -> Json:
    """By content, or by reference."""
    value: Json = {"apiVersion": TEMPLATES.api_version, "kind": TEMPLATES.kind, "userDataSecret": {"name": "data"}}
    content = {"template": {"spec": {"instanceType": instance_type}}}
    return {"value": value | ({"metadata": {"name": template}} if template else {"spec": content})}


def machine_api_set(name: str = NAME, replicas: int | None = 1, **metadata: Any) -> Json:
    labels = {model.SET_LABEL: name}
    spec: Json = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"providerSpec": provider_spec()}},
    }
    spec |= {} if replicas is None else {"replicas": replicas}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def cluster_api_set(name: str = NAME, replicas: int = 1, template: str = "", **metadata: Any) -> Json:
    labels = {model.SET_LABEL: name}
    machine = {
        "clusterName": CLUSTER,
        "bootstrap": {"dataSecretName": "data"},
        "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": TEMPLATES.kind, "name": template or f"{name}-own"},
    }
    spec = {
        "clusterName": CLUSTER,
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": machine},
    }
    return {"metadata": {"name": name, **metadata}, "spec": spec}


class World(controller_harness.Scene):
    """Objects, and what becomes of them."""

    version = CLUSTER_API.versions[0]
    """Of Cluster API."""

    async def build(self) -> None:
        for api in machine_apis.MACHINE_APIS:
            await self.api.create(resources.NAMESPACES.untyped(), {"metadata": {"name": api.namespace}})
        for body in self.definitions():
            await self.api.create(DEFINITIONS, body)
        await self.api.create(DEFINITIONS, definition(INFRASTRUCTURE, TEMPLATES.kind, "v1beta1"))
        clusters = CLUSTERS.at(f"{CLUSTER_API.group}/{self.version}")
        await self.api.create(clusters, {"metadata": {"name": CLUSTER}, "spec": {}}, CLUSTER_API.namespace)

    def definitions(self) -> list[Json]:
        """Of both APIs."""
        made = [definition(CLUSTER_API.group, "Cluster", self.version)]
        for api in machine_apis.MACHINE_APIS:
            version = self.sets(api).api_version.partition("/")[2]
            made += [machine_sets_definition(api, version), definition(api.group, "Machine", version)]
        return made

    def sets(self, api: machine_apis.MachineApi) -> resources.Resource[Json]:
        return api.machine_sets(self.version if api is CLUSTER_API else "")

    def machines(self, api: machine_apis.MachineApi) -> resources.Resource[Json]:
        return api.machines(self.version if api is CLUSTER_API else "")

    @contextlib.asynccontextmanager
    async def controlled(self, between: Between = nothing, cluster: str = CLUSTER) -> AsyncIterator[None]:
        """With the controller running; `between` stands between it and the server."""
        settings = MachineSetSyncSettings(cluster=cluster)
        async with self.running(lambda site: controller.new_controller(site, settings), between=between):
            yield

    @contextlib.asynccontextmanager
    async def pausing(self) -> AsyncIterator[None]:
        """With controllers of both APIs that do nothing but say whether they are paused, and what they have seen."""
        running = asyncio.ensure_future(self._say_paused())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def _say_paused(self) -> None:
        seen = -1
        while True:
            is_news, seen = self.server.version != seen, self.server.version
            for api in machine_apis.MACHINE_APIS if is_news else ():
                for found in (await self.api.list(self.sets(api), request_builders.ListOptions(api.namespace))).items:
                    with contextlib.suppress(errors.NotFound, errors.Conflict):
                        await self.say_paused(api, found)
            await self.clock.sleep(0.3)

    async def say_paused(self, api: machine_apis.MachineApi, found: Json) -> None:
        """As its controller would."""
        if api is MACHINE_API:
            is_paused = (found.get("status") or {}).get("authoritativeAPI") != "MachineAPI"
        else:
            is_paused = machine_apis.PAUSED_ANNOTATION in (found["metadata"].get("annotations") or {})
        before = (found.get("status") or {}).get("conditions") or []
        said = unstructured.find_condition(before, "Paused") or {}
        observed = (found.get("status") or {}).get("observedGeneration")
        if said.get("status") == str(is_paused) and (is_paused or observed == found["metadata"]["generation"]):
            return
        after = unstructured.set_condition(before, "Paused", is_paused, "Paused", "", self.clock.now_s())
        status: Json = {"conditions": after}
        if not is_paused:
            status |= {"observedGeneration": found["metadata"]["generation"]}
        metadata = {"resourceVersion": found["metadata"]["resourceVersion"]}
        body = {"metadata": metadata, "status": status}
        name = found["metadata"]["name"]
        await self.api.merge_patch(self.sets(api), name, body, api.namespace, subresource="status")

    async def is_quiet(self, seconds: float = 3000.0) -> bool:
        return await super().is_quiet(seconds)

    # Making

    async def add(self, api: machine_apis.MachineApi, body: Json, status: Mapping[str, Any] | None = None) -> Json:
        found = await self.api.create(self.sets(api), body, api.namespace)
        if status is not None:
            found = await self.say(api, dict(status), body["metadata"]["name"])
        return found

    async def add_pair(self, authority: str = "MachineAPI", replicas: int = 1, name: str = NAME) -> None:
        """A MachineSet of Machine API, of which the controller is to make the other."""
        body = machine_api_set(name, replicas)
        body["spec"]["authoritativeAPI"] = "MachineAPI" if authority == "Migrating" else authority
        await self.add(MACHINE_API, body, {"authoritativeAPI": authority})

    async def say(self, api: machine_apis.MachineApi, status: Json, name: str = NAME) -> Json:
        return await self.api.merge_patch(self.sets(api), name, {"status": status}, api.namespace, subresource="status")

    async def add_machine(self, name: str, machine_set: str = NAME, **annotations: str) -> None:
        """A Machine, in both APIs."""
        for api in machine_apis.MACHINE_APIS:
            uid = (await self.get(api, machine_set))["metadata"]["uid"]
            version = self.sets(api).api_version
            owner = {"apiVersion": version, "kind": "MachineSet", "name": machine_set, "uid": uid}
            metadata = {
                "name": name,
                "labels": {model.SET_LABEL: machine_set},
                "annotations": annotations,
                "ownerReferences": [owner],
            }
            spec = {} if api is MACHINE_API else cluster_api_set()["spec"]["template"]["spec"]
            await self.api.create(self.machines(api), {"metadata": metadata, "spec": spec}, api.namespace)

    # Looking

    async def find(self, api: machine_apis.MachineApi, name: str = NAME) -> Json | None:
        try:
            return await self.api.get(self.sets(api), name, api.namespace)
        except errors.NotFound:
            return None

    async def get(self, api: machine_apis.MachineApi, name: str = NAME) -> Json:
        found = await self.find(api, name)
        assert found is not None, f"{api.group} {name} is gone"
        return found

    async def sizes(self, name: str = NAME) -> tuple[int | None, int | None]:
        """Replicas of (Machine API, Cluster API)."""
        item, other = [await self.get(api, name) for api in machine_apis.MACHINE_APIS]
        return item["spec"].get("replicas"), other["spec"].get("replicas")

    async def annotations(self, api: machine_apis.MachineApi, name: str = NAME) -> dict[str, str]:
        return dict((await self.get(api, name))["metadata"].get("annotations") or {})

    async def mark(self, api: machine_apis.MachineApi, machine: str) -> str | None:
        found = await self.api.get(self.machines(api), machine, api.namespace)
        value: str | None = (found["metadata"].get("annotations") or {}).get(api.delete_machine)
        return value

    async def synchronized(self, name: str = NAME) -> Json:
        status = (await self.get(MACHINE_API, name)).get("status") or {}
        return dict(unstructured.find_condition(status.get("conditions"), model.SYNCHRONIZED) or {})

    async def authority(self, name: str = NAME) -> str:
        return str((await self.get(MACHINE_API, name)).get("status", {}).get("authoritativeAPI") or "")

    async def templates(self) -> dict[str, Json]:
        found = (await self.api.list(TEMPLATES, request_builders.ListOptions(CLUSTER_API.namespace))).items
        return {item["metadata"]["name"]: item for item in found}

    # Doing

    async def scale(self, replicas: int, manager: str = AUTOSCALER, api: machine_apis.MachineApi = CLUSTER_API) -> None:
        await self.as_manager(manager).scale(self.sets(api), NAME, replicas, api.namespace)

    async def edit(
        self, api: machine_apis.MachineApi, patch: Json, manager: str = ADMINISTRATOR, name: str = NAME
    ) -> None:
        await self.as_manager(manager).merge_patch(self.sets(api), name, patch, api.namespace)

    async def resize(self, replicas: int, api: machine_apis.MachineApi = MACHINE_API) -> None:
        """As an administrator does."""
        await self.edit(api, {"spec": {"replicas": replicas}})

    async def annotate(self, api: machine_apis.MachineApi, manager: str = OPERATOR, **annotations: str | None) -> None:
        """Bounds (`min_size="1"`), or the owner."""
        keys = {"min_size": api.min_size, "max_size": api.max_size, "owner": machine_apis.OWNER_ANNOTATION}
        said = {keys[name]: value for name, value in annotations.items()}
        await self.edit(api, {"metadata": {"annotations": said}}, manager)

    async def migrate(self, to: str) -> None:
        """As an administrator asks for it."""
        await self.edit(MACHINE_API, {"spec": {"authoritativeAPI": to}})


in_virtual_time = controller_harness.of(World)


def owners(found: Json, *path: str) -> set[tuple[str, str]]:
    return {(owner.manager, owner.operation) for owner in unstructured.find_field_owners(found, path)}
