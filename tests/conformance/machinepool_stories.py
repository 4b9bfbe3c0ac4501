"""Recorded life stories of MachinePools, told again with our controller on the embedded server.

Each step is one case: what is applied, then every object as it was recorded. Where the seed says otherwise than the
recording, the seed's word is put in its place first (`_seed_says`); steps that are marked as upstream defects are
played but not compared. What other controllers wrote (the Machine controller, the node lifecycle controller's part in
webhooks) is played from the recording.
"""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from tests.conformance.outcome import Json, Outcome
from tests.controllers.machine_pool import management_cluster
from windlass import clock
from windlass.controllers.machine_pool import webhook

_LEFT_OUT = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "deletionGracePeriodSeconds")
_LOOKS_AGAIN = 5
"""On a real control plane, whose controllers may be quiet for a while only because others have the processor."""
_MANAGERS = {"windlass": "capi-manager", "client": "<client>"}


def is_part_of_one(path: Path) -> bool:
    """Whether a file is a life story, or what is there before each."""
    return path.name.endswith(".json") and {"steps", "crds"} & json.loads(path.read_text()).keys() != set()


def run(path: Path) -> Iterator[Outcome]:
    story = json.loads(path.read_text())
    if "steps" not in story:
        return
    time = clock.VirtualClock(management_cluster.NOW_S)
    common = json.loads((path.parent / "common.json").read_text())
    yield from time.run(_report(story, common, time))


async def _report(story: Json, common: Json, time: clock.VirtualClock) -> list[Outcome]:
    scene = management_cluster.World(time)
    for item in management_cluster.cluster_api_definitions():
        await scene.apply(item)
    for item in common["crds"]:
        await scene.apply(item)
    for item in common["objects"]:
        if item["kind"] in ("Cluster", "Node"):
            await scene.apply(item)
    await scene.apply(
        management_cluster.secret("work-kubeconfig", management_cluster.kubeconfig("https://work.example:6443"))
    )
    teller = Teller(scene, story)
    async with scene.controlled():
        return [await teller.play(number, step) for number, step in enumerate(story["steps"])]


class Scene(Protocol):
    """Where a story is told."""

    async def apply(self, body: Json) -> Json: ...

    async def get(self, kind: str, name: str) -> Json | None: ...

    async def delete(self, kind: str, name: str) -> None: ...

    async def events(self, name: str) -> list[Json]: ...

    async def settle(self, seconds: float = ...) -> None: ...

    def errors(self) -> float: ...


class Teller:
    """Plays a story, and remembers what it needs to compare."""

    def __init__(self, scene: Scene, story: Json, *, alone: bool = True) -> None:
        self.scene = scene
        self.alone = alone
        """Nobody else is there: what webhooks and other controllers would do is played from the recording."""
        self.name = story["name"]
        self.uids: dict[str, str] = {}
        self.told: set[str] = set()
        self.found: list[Json] = []
        """What there was after each step."""
        self.seed = Seed()

    async def play(self, number: int, step: Json) -> Outcome:
        errors_before = self.scene.errors()
        for body in step["apply"]:
            self.seed.on_event(body)
            await self.apply(body)
            await self.scene.settle(0.1)
        for what in step["delete"]:
            kind, _, name = what.partition(" ")
            await self.scene.delete(kind, name)
        await self.scene.settle()
        if self.alone:
            await self._play_machines(step["expect"])
            await self.scene.settle()
        expected = self.seed.correct(step["expect"])
        expected["new events"] = [item for item in expected["new events"] if item["message"] not in self.told]
        if not self.alone:
            del expected["reconcile errors"]  # others' stories are told at the same time
        found = await self._look(expected, errors_before)
        if not self.alone and "upstream defect" not in step:
            found = await self._look_again(expected, found)
        name = f"{self.name} {number}: {step['note']}"
        self.found.append(found)
        if "upstream defect" in step:
            return Outcome(name, 1, 1)
        differences = list(compare(expected, found))
        return Outcome(name, 0 if differences else 1, 1, tuple(differences))

    async def apply(self, body: Json) -> None:
        body = copy.deepcopy(body)
        if self.alone and body["kind"] == "MachinePool":
            body = await self._admit(body)
        found = await self.scene.apply(body)
        self._remember(found)

    async def _admit(self, body: Json) -> Json:
        """As Cluster API's webhooks would have it."""
        old = await self.scene.get("MachinePool", body["metadata"]["name"])
        if old is not None:
            return body
        made: Json = webhook.default_machine_pool(body, None)
        assert webhook.validate_machine_pool(made, None) == []
        return made

    def _remember(self, body: Json) -> None:
        name = f"{body['kind']} {body['metadata']['name']}"
        uid = body["metadata"]["uid"]
        if uid in self.uids:
            return
        again = sum(1 for item in self.uids.values() if item.startswith(f"<uid of {name}"))
        self.uids[uid] = f"<uid of {name}>" if not again else f"<uid of {name}, 2nd>"

    # What others would have written

    async def _play_machines(self, expected: Json) -> None:
        for wanted in expected.get("Machines") or ():
            await self._play_machine(wanted)
        for name, wanted in expected.items():
            kind, _, called = name.partition(" ")
            if kind == "Node" and wanted and expected.get("Machines"):
                await self._play_node(called, wanted)
            if kind == "NewMachine" and wanted and expected.get("Machines"):
                await self._own_infra_machine(called)
        if "Machines" in expected:
            await self._let_machines_go(expected)

    async def _play_machine(self, wanted: Json) -> None:
        found = await self.scene.get("Machine", wanted["metadata"]["name"])
        if found is None:
            return
        self._remember(found)
        status = copy.deepcopy(wanted["status"])
        ours = [item for item in (found.get("status") or {}).get("conditions") or () if item["type"] == "UpToDate"]
        theirs = [entry for entry in status.get("conditions") or () if entry["type"] != "UpToDate"]
        for each in theirs:
            each["observedGeneration"] = 1
        body: Json = {
            "apiVersion": wanted["apiVersion"],
            "kind": "Machine",
            "metadata": {"name": wanted["metadata"]["name"], "namespace": "default"},
            "spec": {key: wanted["spec"].get(key) for key in ("providerID", "deletion")},
            "status": {**status, "conditions": [*theirs, *ours], "observedGeneration": 1},
        }
        if "deletionTimestamp" not in found["metadata"]:
            body["metadata"]["finalizers"] = wanted["metadata"].get("finalizers")
        await self.scene.apply(body)

    async def _play_node(self, name: str, wanted: Json) -> None:
        if await self.scene.get("Node", name) is None:
            return
        metadata = {"name": name, "labels": wanted["metadata"].get("labels") or {}}
        theirs = {
            key: value
            for key, value in (wanted["metadata"].get("annotations") or {}).items()
            if key.endswith(("-from-machine", "/machine"))
        }
        spec = {key: wanted["spec"][key] for key in ("unschedulable", "taints") if key in wanted["spec"]}
        await self.scene.apply(
            {"apiVersion": "v1", "kind": "Node", "metadata": {**metadata, "annotations": theirs}, "spec": spec}
        )

    async def _own_infra_machine(self, name: str) -> None:
        machine = await self.scene.get("Machine", name)
        if machine is None:
            return
        owner = {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Machine",
            "name": name,
            "uid": machine["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        metadata = {"name": name, "namespace": "default", "ownerReferences": [owner]}
        api_version = f"{management_cluster.INFRASTRUCTURE}/v1beta1"
        if await self.scene.get("NewMachine", name) is not None:
            await self.scene.apply({"apiVersion": api_version, "kind": "NewMachine", "metadata": metadata})

    async def _let_machines_go(self, expected: Json) -> None:
        """Machines that were gone by then, and what their controller takes with them."""
        kept = {item["metadata"]["name"] for item in expected["Machines"]}
        for name in ("m-0", "m-1"):
            found = await self.scene.get("Machine", name)
            if found is None:
                continue
            is_going = "deletionTimestamp" in found["metadata"]
            if name not in kept and is_going:
                await self._delete_with(name)
                no_finalizers: Json = {"name": name, "namespace": "default", "finalizers": []}
                await self.scene.apply(
                    {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": no_finalizers}
                )
            elif is_going:
                await self._delete_infra_machine(name)

    async def _delete_with(self, name: str) -> None:
        await self._delete_infra_machine(name)
        for kind in ("Node",):
            if await self.scene.get(kind, name) is not None:
                await self.scene.delete(kind, name)

    async def _delete_infra_machine(self, name: str) -> None:
        found = await self.scene.get("NewMachine", name)
        if found is not None and "deletionTimestamp" not in found["metadata"]:
            await self.scene.delete("NewMachine", name)

    # What there is

    async def _look_again(self, expected: Json, found: Json) -> Json:
        """What there is once it is as expected, or has settled for the last time."""
        for _ in range(_LOOKS_AGAIN):
            if not any(compare(expected, found)):
                break
            await self.scene.settle()
            later = await self._look(expected, 0.0)
            found = {**later, "new events": [*found["new events"], *later["new events"]]}
        return found

    async def _look(self, expected: Json, errors_before: float) -> Json:
        found: Json = {}
        for item in expected.get("Machines") or ():
            if machine := await self.scene.get("Machine", item["metadata"]["name"]):
                self._remember(machine)
        for name in expected:
            found[name] = await self._look_at(name, expected)
        found["new events"] = await self._new_events()
        if "reconcile errors" in expected:
            found["reconcile errors"] = bool(self.scene.errors() - errors_before)
        return found

    async def _look_at(self, name: str, expected: Json) -> Any:
        if name == "MachinePool":
            return self._tidy(await self._pool())
        if name == "Machines":
            listed = [await self.scene.get("Machine", item["metadata"]["name"]) for item in expected["Machines"]]
            return [_ours(tidied) for entry in listed if (tidied := self._tidy(entry))]
        if name == "managers of MachinePool":
            return self._managers(await self._pool())
        if " " not in name or name in ("new events", "reconcile errors"):
            return None
        kind, _, called = name.partition(" ")
        found = await self.scene.get(kind, called)
        if found is None:
            return None
        self._remember(found)
        parts = ("metadata", "spec") if kind == "Node" else ("metadata",)
        tidied = self._tidy(found) or {}
        return {part: tidied[part] for part in parts}

    async def _pool(self) -> Json | None:
        found = await self.scene.get("MachinePool", self.seed.pool)
        for kind, name in (("Cluster", "work"), *(("Node", node) for node in self.seed.nodes)):
            item = await self.scene.get(kind, name)
            if item is not None:
                self._remember(item)
        return found

    def _managers(self, pool: Json | None) -> list[str] | None:
        if pool is None:
            return None
        return sorted(
            f"{_MANAGERS.get(item['manager'], item['manager'])} {item['operation']} {item.get('subresource') or '-'}"
            for item in pool["metadata"]["managedFields"]
        )

    async def _new_events(self) -> list[Json]:
        found = []
        for event in await self.scene.events(self.seed.pool):
            message = self._name_uids(event["message"])
            if message not in self.told:
                self.told.add(message)
                source = event["source"]["component"]
                found.append({"type": event["type"], "reason": event["reason"], "message": message, "source": source})
        return found

    def _tidy(self, body: Json | None) -> Json | None:
        if body is None:
            return None
        generation = body["metadata"].get("generation")
        tidied: Json = json.loads(self._name_uids(json.dumps(_strip(body, generation))))
        tidied["metadata"] = {key: value for key, value in tidied["metadata"].items() if key not in _LEFT_OUT}
        if "deletionTimestamp" in tidied["metadata"]:
            tidied["metadata"]["deletionTimestamp"] = "<set>"
        return tidied

    def _name_uids(self, text: str) -> str:
        return re.sub(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", lambda found: self.uids.get(found[0], "?"), text)


def _ours(machine: Json) -> Json:
    """Of a Machine's status, what is written here; the rest was played."""
    conditions = (machine.get("status") or {}).get("conditions") or ()
    return {**machine, "status": [item for item in conditions if item["type"] == "UpToDate"]}


def _strip(body: Any, generation: int | None) -> Any:
    if isinstance(body, list):
        return [_strip(item, generation) for item in body]
    if not isinstance(body, dict):
        return body
    found = {key: _strip(value, generation) for key, value in body.items() if key != "lastTransitionTime"}
    if "observedGeneration" in found:
        found["observedGeneration"] = "<current>" if found["observedGeneration"] == generation else "<older>"
    return found


class Seed:
    """What the seed says where the recording says otherwise."""

    def __init__(self) -> None:
        self.pool = ""
        self.nodes: list[str] = []
        self.secret: str | None = None
        self.is_user_secret = False
        self.failure: tuple[str, str] | None = None

    def on_event(self, body: Json) -> None:
        """What is applied."""
        name = body["metadata"]["name"]
        if body["kind"] == "Node":
            self.nodes.append(name)
        if body["kind"] == "MachinePool":
            self.pool = name
            machine = ((body.get("spec") or {}).get("template") or {}).get("spec") or {}
            given = (machine.get("bootstrap") or {}).get("dataSecretName")
            if given:
                self.secret, self.is_user_secret = given, "configRef" in machine["bootstrap"]
        status = body.get("status") or {}
        if status.get("failureReason") or status.get("failureMessage"):
            self.failure = (status.get("failureReason") or "", status.get("failureMessage") or "")

    def correct(self, recorded: Json) -> Json:
        expected = copy.deepcopy(recorded)
        expected["reconcile errors"] = bool(recorded.get("reconcile errors"))
        if "Machines" in expected:
            expected["Machines"] = [_ours(item) for item in expected["Machines"]]
        pool = expected.get("MachinePool")
        if pool is None:
            return expected
        expected["managers of MachinePool"] = sorted(expected["managers of MachinePool"])
        self._keep_secret(pool)
        if self.is_user_secret:
            self._take_users_word(pool["status"])
        self._stay_failed(pool["status"])
        return expected

    def _keep_secret(self, pool: Json) -> None:
        """A name is copied only into an empty field."""
        bootstrap = pool["spec"]["template"]["spec"]["bootstrap"]
        self.secret = self.secret or bootstrap.get("dataSecretName")
        if self.secret:
            bootstrap["dataSecretName"] = self.secret

    def _take_users_word(self, status: Json) -> None:
        """A name that a user set marks the pool as ready for bootstrapping."""
        status["initialization"]["bootstrapDataSecretCreated"] = True
        found = {item["type"]: item for item in status["deprecated"]["v1beta1"]["conditions"]}
        found["BootstrapReady"] = {"type": "BootstrapReady", "status": "True"}
        if found["Ready"].get("reason") == "WaitingForDataSecret":
            found["Ready"] = {**found["InfrastructureReady"], "type": "Ready"}
        status["deprecated"]["v1beta1"]["conditions"] = list(found.values())
        if status["phase"] == "Pending":
            status["phase"] = "Provisioning"

    def _stay_failed(self, status: Json) -> None:
        """A failure is terminal, and stays."""
        old = status.setdefault("deprecated", {}).setdefault("v1beta1", {})
        if old.get("failureReason"):
            self.failure = (old["failureReason"], old["failureMessage"])
        if self.failure is not None:
            old["failureReason"] = self.failure[0]
            old["failureMessage"] = re.compile(re.escape(self.failure[1]))
            status["phase"] = "Failed"
        elif not old:
            del status["deprecated"]


def compare(expected: Any, found: Any, path: str = "") -> Iterator[str]:
    """Where what was found is not what was expected."""
    if isinstance(expected, re.Pattern):
        if not isinstance(found, str) or not expected.search(found):
            yield f"{path}: expected {expected.pattern!r}, found {found!r}"
    elif isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted({*expected, *found}):
            if key == "new events":
                yield from _compare_events(expected.get(key) or [], found.get(key) or [])
            else:
                yield from compare(expected.get(key), found.get(key), f"{path}/{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, pair in enumerate(zip(expected, found, strict=True)):
            yield from compare(*pair, f"{path}/{number}")
    elif expected != found:
        yield f"{path}: expected {expected!r}, found {found!r}"


def _compare_events(expected: list[Json], found: list[Json]) -> Iterator[str]:
    """Warnings are ours alone: the recorded controller has none."""
    told = [event for event in found if event["type"] == "Normal"]
    if expected != told:
        yield f"new events: expected {expected!r}, found {told!r}"
