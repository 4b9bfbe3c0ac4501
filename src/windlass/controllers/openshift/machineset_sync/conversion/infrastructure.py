"""Infrastructure: what Machines are made of. Cluster API refers to a template; Machine API has it inside, in
`providerSpec`.

What each cloud's provider has in `providerSpec` is its own affair. Here a `providerSpec.value` stands for any template
of Cluster API, in one of two ways:

    by reference   {apiVersion: infrastructure…/v1, kind: FooMachineTemplate, metadata: {name: workers}}
    by content     {apiVersion: infrastructure…/v1, kind: FooMachineTemplate, spec: {template: {spec: …}}}

besides `userDataSecret` (the bootstrap data's Secret) and `failureDomain`. A template by content is made, and named
after what is in it, so that another content is another template.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass import errors
from windlass.controllers.openshift.machineset_sync import names

Json = Mapping[str, Any]

_HASH_CHARS = 10
_NAME_CHARS = 253
_TEMPLATE = "Template"


class Inconvertible(errors.WindlassError):
    """Something cannot be said in the other API's words."""


@dataclass(frozen=True, slots=True)
class Infrastructure:
    """What Machines of a set are made of."""

    api_version: str
    kind: str
    name: str
    spec: Json | None = None
    """The template's, if it is to be made; None if someone else made it."""
    user_data_secret: str = ""
    failure_domain: str = ""

    @property
    def group(self) -> str:
        return self.api_version.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Template:
    """A template that is there."""

    api_version: str
    kind: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    is_leaving: bool = False
    spec: Json = field(default_factory=dict)


def is_foreign(value: Json | None) -> bool:
    """Is it something that only a cloud's own provider understands?"""
    return bool(value) and not str((value or {}).get("kind") or "").endswith(_TEMPLATE)


def read(machine_set: str, value: Json | None) -> Infrastructure:
    """From `providerSpec.value`. `Inconvertible` if it stands for no template."""
    at = "spec.template.spec.providerSpec.value"
    if not value:
        raise Inconvertible(f"{at}: Required value")
    kind, version = value.get("kind") or "", value.get("apiVersion") or ""
    if is_foreign(value) or "/" not in version:
        raise Inconvertible(f'{at}: Invalid value: "{version} {kind}": expected the kind of a template of Cluster API')
    name, spec = (value.get("metadata") or {}).get("name") or "", value.get("spec")
    if bool(name) == bool(spec):
        raise Inconvertible(f"{at}: Invalid value: expected one of metadata.name and spec")
    return Infrastructure(
        version,
        kind,
        name or make_name(machine_set, spec or {}),
        None if name else spec,
        (value.get("userDataSecret") or {}).get("name") or "",
        value.get("failureDomain") or "",
    )


def make_name(machine_set: str, spec: Json) -> str:
    """The name of a template of this content."""
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARS]
    return f"{machine_set[: _NAME_CHARS - _HASH_CHARS - 1]}-{digest}"


def make(machine_set: str, found: Infrastructure, namespace: str, owner: Json) -> dict[str, Any]:
    """The template that belongs to a MachineSet."""
    labels = {names.SET_LABEL: machine_set}
    metadata = {"name": found.name, "namespace": namespace, "labels": labels, "ownerReferences": [dict(owner)]}
    return {"apiVersion": found.api_version, "kind": found.kind, "metadata": metadata, "spec": dict(found.spec or {})}


def to_machine_spec(found: Infrastructure) -> dict[str, Any]:
    """The part of a Machine's spec in Cluster API that says what it is made of; nothing where nothing is known."""
    spec: dict[str, Any] = {"infrastructureRef": {"apiGroup": found.group, "kind": found.kind, "name": found.name}}
    spec |= {"bootstrap": {"dataSecretName": found.user_data_secret}} if found.user_data_secret else {}
    return spec | ({"failureDomain": found.failure_domain} if found.failure_domain else {})


def to_provider_spec(machine: Json, template: Template, before: Json | None) -> dict[str, Any]:
    """`providerSpec.value` of a Machine of Cluster API: by content if that is how it was, by reference
    otherwise. What only a cloud's own provider understands stays as it was.
    """
    if before and is_foreign(before):
        return dict(before)
    value: dict[str, Any] = {"apiVersion": template.api_version, "kind": template.kind}
    if before and "spec" in before:
        value["spec"] = dict(template.spec)
    else:
        value["metadata"] = {"name": template.name}
    secret = (machine.get("bootstrap") or {}).get("dataSecretName") or ""
    domain = machine.get("failureDomain") or ""
    value |= {"userDataSecret": {"name": secret}} if secret else {}
    return value | ({"failureDomain": domain} if domain else {})
