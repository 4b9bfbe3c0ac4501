"""Watches: what is looked at, and which pairs a change concerns. A pair's key is the name of its MachineSets."""

from collections.abc import Iterable, Mapping
from typing import Any

from windlass.controllers import following
from windlass.controllers.openshift import apis, authority
from windlass.controllers.openshift.machineset_sync import facts, names
from windlass.controllers.openshift.machineset_sync.conversion import infrastructure, status
from windlass.controllers.openshift.machineset_sync.templates import Templates
from windlass.kube import client, prepare
from windlass.kube.models import meta
from windlass.kube.resources import CLUSTERS

Json = Mapping[str, Any]

_CLUSTERS = CLUSTERS.at(apis.CLUSTER_API.machine_sets().api_version).untyped()


class Machine(meta.Object, frozen=True):
    """Of a Machine: whose it is, and its marks."""


class Watches:
    """What is known."""

    def __init__(self, api: client.Client, followed: following.Following, cluster: str) -> None:
        self._api, self._cluster = api, cluster
        follow = followed.follow
        within = {each: prepare.Selection(each.namespace) for each in apis.BOTH}
        self._sets = {
            each: follow(api, each.machine_sets(), _own, within[each], {"template": _refer}) for each in apis.BOTH
        }
        self._machines = {
            each: follow(api, each.machines().read_as(Machine), _owners, within[each], {"set": _owners})
            for each in apis.BOTH
        }
        self._clusters = follow(api, _CLUSTERS, lambda _: self._all(), within[apis.CLUSTER_API])
        self.templates = Templates(api, followed, self._concerned)

    def pair(self, name: str) -> authority.Pair:
        one, other = (self._sets[api].store.get(f"{api.namespace}/{name}") for api in apis.BOTH)
        return authority.Pair(name, one, other)

    async def observe(self, pair: authority.Pair) -> facts.Seen:
        """All that a decision needs, but for Machines. `controller.NotYet` if a kind cannot be read."""
        cluster = self._name_cluster(pair)
        named = [await self.templates.find(*reference) for reference in _list_references(pair)]
        found = {(each.kind, each.name): each for each in (*named, *self.templates.list_made(pair.name)) if each}
        return facts.Seen(
            pair,
            cluster,
            self._clusters.store.get(f"{apis.CLUSTER_API.namespace}/{cluster}"),
            tuple(found.values()),
        )

    def knows_kinds(self, pair: authority.Pair) -> bool:
        """Does the server have every kind of template that a pair speaks of?"""
        return all(self.templates.knows(group, kind) for group, kind, _ in _list_references(pair))

    def are_marks_uneven(self, name: str) -> bool:
        """Is a Machine of a set marked whose twin is not?"""
        marked = [
            {
                (each.meta.name, mark)
                for each in self._machines[api].store.find("set", name)
                if (mark := _mark(each, api))
            }
            for api in apis.BOTH
        ]
        return marked[0] != marked[1]

    async def read_machines(self, pair: authority.Pair) -> tuple[facts.Twins, ...]:
        """The Machines of a pair as the server has them now. What was marked before it was scaled is marked here."""
        found: dict[apis.Api, dict[str, Json]] = {}
        for api in apis.BOTH:
            selector = status.spell_selector(facts.spec(pair.get(api)).get("selector") or {})
            within = prepare.Selection(api.namespace, labels=selector)
            listed = (await self._api.list(api.machines(), within)).items
            found[api] = {each["metadata"]["name"]: each for each in listed if _belongs(each, pair.name)}
        one, other = (found[api] for api in apis.BOTH)
        return tuple(facts.Twins(name, one.get(name), other.get(name)) for name in sorted(one.keys() | other.keys()))

    def _name_cluster(self, pair: authority.Pair) -> str:
        own = facts.spec(pair.cluster_api).get("clusterName")
        return self._cluster or own or facts.labels(pair.machine_api).get(names.CLUSTER_LABEL) or ""

    def _all(self) -> list[str]:
        return sorted({_name(each) for followed in self._sets.values() for each in followed.store})

    def _concerned(self, template: Json) -> Iterable[str]:
        """The set that a template was made for, and those that refer to it."""
        if label := facts.labels(template).get(names.SET_LABEL):
            yield label
        for followed in self._sets.values():
            for each in followed.store.find("template", f"{template.get('kind')}/{_name(template)}"):
                yield _name(each)


def _list_references(pair: authority.Pair) -> Iterable[tuple[str, str, str]]:
    """(group, kind, name) of the templates that either of two MachineSets speaks of; no name if it has it inside."""
    value = _value(pair.machine_api)
    if value and not infrastructure.is_foreign(value):
        group = str(value.get("apiVersion") or "").partition("/")[0]
        yield group, str(value.get("kind") or ""), str((value.get("metadata") or {}).get("name") or "")
        if value.get("spec"):
            yield group, str(value.get("kind") or ""), infrastructure.make_name(pair.name, value["spec"])
    machine = (facts.spec(pair.cluster_api).get("template") or {}).get("spec") or {}
    if reference := machine.get("infrastructureRef"):
        group = reference.get("apiGroup") or str(reference.get("apiVersion") or "").partition("/")[0]
        yield group, reference.get("kind") or "", reference.get("name") or ""


def _value(machine_set: Json | None) -> Json:
    machine = (facts.spec(machine_set).get("template") or {}).get("spec") or {}
    return (machine.get("providerSpec") or {}).get("value") or {}


def _refer(machine_set: Json) -> list[str]:
    pair = authority.Pair("", machine_set, machine_set)
    return [f"{kind}/{name}" for _, kind, name in _list_references(pair) if name]


def _own(machine_set: Json) -> list[str]:
    return [_name(machine_set)]


def _name(body: Json) -> str:
    name: str = body["metadata"]["name"]
    return name


def _owners(machine: Machine) -> list[str]:
    owners = [owner.name for owner in machine.meta.owner_references or () if owner.kind == "MachineSet" and owner.name]
    label = (machine.meta.labels or {}).get(names.SET_LABEL)
    return sorted({*owners, *([label] if label else ())})


def _belongs(machine: Json, name: str) -> bool:
    owners = facts.metadata(machine).get("ownerReferences") or ()
    is_owned = any(each.get("kind") == "MachineSet" and each.get("name") == name for each in owners)
    return is_owned or facts.labels(machine).get(names.SET_LABEL) == name


def _mark(machine: Machine, api: apis.Api) -> str | None:
    if machine.meta.deletion_timestamp is not None:
        return None
    return (machine.meta.annotations or {}).get(api.delete_machine)
