"""Entries of managedFields: who manages which fields, by which operation, through which subresource."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from windlass.apiserver.apply import fieldset

APPLY = "Apply"
UPDATE = "Update"


@dataclass(frozen=True, slots=True, order=True)
class Identity:
    """Whose entry it is. An applier has one entry whatever the version; an updater one for each."""

    manager: str
    operation: str
    subresource: str = ""
    api_version: str = ""
    """Empty for appliers."""

    @classmethod
    def of(cls, manager: str, operation: str, subresource: str, api_version: str) -> "Identity":
        return cls(manager or "unknown", operation, subresource, "" if operation == APPLY else api_version)


@dataclass(frozen=True, slots=True)
class Entry:
    """What one manager owns, in which version, and since when."""

    fields: fieldset.Fields
    api_version: str
    time: str | None = None

    def holding(self, fields: fieldset.Fields) -> "Entry":
        return Entry(fields, self.api_version, self.time)


Managers = dict[Identity, Entry]


class Malformed(ValueError):
    """managedFields that cannot be read."""


def read(entries: Iterable[Any] | None) -> Managers:
    """The managers that an object's managedFields tell of."""
    managers: Managers = {}
    for i, entry in enumerate(entries or ()):
        operation, api_version = entry.get("operation"), entry.get("apiVersion", "")
        if operation not in (APPLY, UPDATE):
            raise Malformed("operation must be `Apply` or `Update`")
        if not api_version:
            raise Malformed("apiVersion must not be empty")
        if entry.get("fieldsType") != "FieldsV1":
            kind = entry.get("fieldsType")
            wrong = f'invalid fieldsType "{kind}"' if kind else "missing fieldsType"
            raise Malformed(f"{wrong} in managed fields entry {i}")
        identity = Identity(
            entry.get("manager", ""),
            operation,
            entry.get("subresource", ""),
            "" if operation == APPLY else api_version,
        )
        managers[identity] = Entry(entry.get("fieldsV1") or {}, api_version, entry.get("time"))
    return managers


def write(managers: Managers) -> list[dict[str, Any]]:
    """ManagedFields as objects carry them, in the server's order."""
    ordered = sorted(managers.items(), key=lambda item: _rank(*item))
    return [_write_entry(identity, entry) for identity, entry in ordered]


def _rank(identity: Identity, entry: Entry) -> tuple[str, str, str, str, str]:
    return identity.operation, entry.time or "", identity.manager, entry.api_version, identity.subresource


def _write_entry(identity: Identity, entry: Entry) -> dict[str, Any]:
    written: dict[str, Any] = {
        "manager": identity.manager,
        "operation": identity.operation,
        "apiVersion": entry.api_version,
    }
    if entry.time is not None:
        written["time"] = entry.time
    written |= {"fieldsType": "FieldsV1", "fieldsV1": entry.fields}
    if identity.subresource:
        written["subresource"] = identity.subresource
    return written
