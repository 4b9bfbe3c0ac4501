"""act: the writing. Every step is made over what was looked at: it is refused if someone was faster, and made anew.

A step that fails keeps those behind it from being done: their order is what makes them safe.
"""

import logging
from dataclasses import dataclass, field
from typing import Any

from windlass.controllers.openshift import apis, authority
from windlass.controllers.openshift.machineset_sync import facts, names, plan
from windlass.controllers.openshift.machineset_sync.conversion import comparing
from windlass.controllers.openshift.machineset_sync.templates import Templates
from windlass.kube import client, errors, prepare

Json = dict[str, Any]

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Outcome:
    """What came of the steps of a plan."""

    failure: plan.Condition | None = None
    error: errors.KubeError | None = None
    is_outdated: bool = False
    """Someone else was faster."""
    overwritten: set[tuple[str, str]] = field(default_factory=set)
    """(uid, resourceVersion) of what is no longer so: whoever still sees it has old news."""


class Hands:
    """Writes MachineSets, Machines and templates."""

    def __init__(self, api: client.Client) -> None:
        self._api = api.written_by(names.MANAGER)
        self._annotations = api.written_by(names.ANNOTATIONS_MANAGER)
        self._condition = api.written_by(names.CONDITION_MANAGER)
        self._authority = api.written_by(names.AUTHORITY_MANAGER)

    async def carry_out(self, steps: tuple[plan.Step, ...], pair: authority.Pair, templates: Templates) -> Outcome:
        outcome = Outcome()
        at = Standing(pair, outcome)
        for step in steps:
            try:
                await self._do(step, at, templates)
            except (errors.NotFound, errors.Conflict) as error:
                _log.info("%s: %s", pair.name, error)
                outcome.is_outdated = True
                break
            except errors.KubeError as error:
                outcome.failure = plan.Condition("False", _blame(step), str(error))
                outcome.error = error
                break
        return outcome

    async def say(self, status: Json, pair: authority.Pair) -> Json:
        """Write the condition Synchronized; Machine API's MachineSet as it is then."""
        at = Standing(pair, Outcome())
        body = {"metadata": at.looked_at(apis.MACHINE_API), "status": status}
        resource = apis.MACHINE_API.machine_sets()
        return await self._condition.apply(resource, body, subresource="status", force=True)

    async def _do(self, step: plan.Step, at: "Standing", templates: Templates) -> None:
        match step:
            case plan.Create(body):
                resource = apis.CLUSTER_API.machine_sets()
                whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
                await self._api.create(resource, whole, apis.CLUSTER_API.namespace)
            case plan.Patch(api, patch, subresource):
                await self._patch(api, patch, subresource, at)
            case plan.ApplyReplicas(api, replicas):
                body = {"metadata": at.looked_at(api), "spec": {"replicas": replicas}}
                at.move_on(api, await self._api.apply(api.machine_sets(), body, force=True))
            case plan.ApplyAnnotations(api, annotations, removed):
                if removed:
                    await self._patch(api, {"metadata": {"annotations": dict.fromkeys(removed)}}, "", at)
                body = {"metadata": {**at.looked_at(api), "annotations": dict(annotations)}}
                at.move_on(api, await self._annotations.apply(api.machine_sets(), body, force=True))
            case plan.MarkMachine():
                await self._mark(step)
            case plan.SetAuthority(status):
                body = {"metadata": at.looked_at(apis.MACHINE_API), "status": dict(status)}
                resource = apis.MACHINE_API.machine_sets()
                written = await self._authority.apply(resource, body, subresource="status", force=True)
                at.move_on(apis.MACHINE_API, written)
            case plan.Delete(api):
                how = prepare.Deletion(uid=facts.metadata(at.pair.get(api)).get("uid") or "")
                await self._api.delete(api.machine_sets(), at.pair.name, api.namespace, how)
                at.forget(api)
            case plan.ApplyTemplate(body):
                resource = await templates.resource(body["apiVersion"], body["kind"])
                whole = {name: value for name, value in body.items() if name not in ("apiVersion", "kind")}
                await self._api.apply(resource, whole, force=True)
            case plan.DeleteTemplate(api_version, kind, name):
                resource = await templates.resource(api_version, kind)
                await self._api.delete(resource, name, apis.CLUSTER_API.namespace)

    async def _patch(self, api: apis.Api, patch: plan.Json, subresource: str, at: "Standing") -> None:
        metadata = {**(patch.get("metadata") or {}), "resourceVersion": at.looked_at(api)["resourceVersion"]}
        body = {**patch, "metadata": metadata}
        resource = api.machine_sets()
        written = await self._api.merge_patch(resource, at.pair.name, body, api.namespace, subresource=subresource)
        _tell(at.pair, api, written)
        at.move_on(api, written)

    async def _mark(self, step: plan.MarkMachine) -> None:
        key = step.api.delete_machine
        if step.value is None:
            patch = {"metadata": {"annotations": {key: None}, "resourceVersion": step.resource_version}}
            await self._api.merge_patch(step.api.machines(), step.name, patch, step.api.namespace)
            return
        metadata = {"name": step.name, "namespace": step.api.namespace, "uid": step.uid}
        metadata |= {"resourceVersion": step.resource_version}
        body = {"metadata": {**metadata, "annotations": {key: step.value}}}
        await self._api.apply(step.api.machines(), body, force=True)


class Standing:
    """The MachineSets of a pair as they are while steps are done: each is made over what the one before it left."""

    def __init__(self, pair: authority.Pair, outcome: Outcome) -> None:
        self.pair = pair
        self._outcome = outcome
        self._seen = {api: facts.metadata(pair.get(api)) for api in apis.BOTH}
        self._versions = {api: self._seen[api].get("resourceVersion") or "" for api in apis.BOTH}

    def looked_at(self, api: apis.Api) -> Json:
        """What a write is made over. With the uid: an apply would make anew what is gone."""
        return {
            "name": self.pair.name,
            "namespace": api.namespace,
            "uid": self._seen[api].get("uid") or "",
            "resourceVersion": self._versions[api],
        }

    def move_on(self, api: apis.Api, written: Json) -> None:
        version = facts.metadata(written).get("resourceVersion") or ""
        if version != self._versions[api]:
            self.forget(api)
            self._versions[api] = version

    def forget(self, api: apis.Api) -> None:
        """What was seen is no longer so."""
        self._outcome.overwritten.add((self._seen[api].get("uid") or "", self._versions[api]))


def _tell(pair: authority.Pair, api: apis.Api, written: Json) -> None:
    """Log what is different from what was looked at."""
    ignored = comparing.MACHINE_API if api is apis.MACHINE_API else comparing.CLUSTER_API
    if _log.isEnabledFor(logging.INFO) and (
        text := comparing.compare(pair.get(api) or {}, written, ignored, comparing.OWN_CONDITIONS)
    ):
        _log.info("%s: %s: %s", pair.name, api.group, text)


def _blame(step: plan.Step) -> str:
    """What failed, as the condition says it."""
    match step:
        case plan.Create():
            return names.FAILED_TO_CREATE_CLUSTER_API
        case plan.ApplyTemplate() | plan.DeleteTemplate():
            return names.FAILED_TO_UPDATE_TEMPLATE
        case plan.SetAuthority():
            return names.FAILED_TO_UPDATE_MACHINE_API
    is_machine_api = step.api is apis.MACHINE_API
    return names.FAILED_TO_UPDATE_MACHINE_API if is_machine_api else names.FAILED_TO_UPDATE_CLUSTER_API
