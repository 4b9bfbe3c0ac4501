"""Server-side apply agrees with recorded histories of the real implementation, step by step."""

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from windlass.apiserver import field_manager, field_sets, structural_schema, typed_values

Json = dict[str, Any]
_RECORDED = Path(__file__).parent / "recorded" / "applies.jsonl.gz"
_BEFORE: Json = {"apiVersion": "x.io/v1", "kind": "Thing"}


def _read() -> tuple[Json, list[list[Json]]]:
    with gzip.open(_RECORDED, "rt") as lines:
        schema, *histories = (json.loads(line) for line in lines)
    return schema["schema"], [history["steps"] for history in histories]


_SCHEMA, _HISTORIES = _read()
_TYPE = structural_schema.type_of_schema(_SCHEMA)
_KEEPERS = {
    "": field_manager.FieldManager(_TYPE, "x.io/v1", "", {"f:status": {}}, _BEFORE),
    "status": field_manager.FieldManager(_TYPE, "x.io/v1", "status", {"f:spec": {}, "f:metadata": {}}, _BEFORE),
}


def _normal(fields: Any) -> Any:
    """Keys of items in one spelling."""
    if not isinstance(fields, dict):
        return fields
    spelled = {}
    for key, node in fields.items():
        if key[:2] in ("k:", "v:"):
            key = key[:2] + json.dumps(json.loads(key[2:]), sort_keys=True)
        spelled[key] = _normal(node)
    return spelled


def _show(owners: field_sets.Managers) -> list[Json]:
    shown = [
        {
            "manager": who.manager,
            "operation": who.operation,
            "subresource": who.subresource,
            "apiVersion": entry.api_version,
            "fields": _normal(entry.fields),
            "time": entry.time is not None,
        }
        for who, entry in owners.items()
    ]
    return sorted(shown, key=_rank)


def _rank(entry: Json) -> tuple[str, ...]:
    return entry["manager"], entry["operation"], entry["subresource"], entry["apiVersion"]


def _do(live: Json, owners: field_sets.Managers, step: Json) -> tuple[Json, field_sets.Managers]:
    keeper = _KEEPERS[step["subresource"]]
    obj = copy.deepcopy(step["obj"])
    if step["op"] == "apply":
        new, owners = keeper.apply(live, obj, owners, step["manager"], "now", force=step["force"])
        obj = copy.deepcopy(live if new is None else new)
    else:
        if "uid" in live.get("metadata", {}):
            obj["metadata"]["uid"] = "u"
        owners = keeper.update(live, obj, owners, step["manager"], "now")
    return _store(live, obj, step["subresource"]), owners


def _store(live: Json, obj: Json, subresource: str) -> Json:
    """Status is written through its subresource alone, and nothing else through that."""
    stored, other = (copy.deepcopy(live), obj) if subresource else (obj, live)
    stored.pop("status", None)
    if "status" in other:
        stored["status"] = other["status"]
    stored["metadata"] = {**(stored.get("metadata") or {}), "uid": "u"}
    return stored


@pytest.mark.parametrize("number", range(len(_HISTORIES)))
def test_a_recorded_history_comes_out_the_same(number: int) -> None:
    live, owners = dict(_BEFORE), field_sets.Managers()
    for step in _HISTORIES[number]:
        found = step["found"]
        if "error" in found:
            with pytest.raises((field_manager.ApplyConflict, typed_values.TypeMismatch)) as refused:
                _do(live, owners, step["do"])
            if isinstance(refused.value, field_manager.ApplyConflict):
                assert f"Apply failed with {len(refused.value.found)} conflict" in found["error"]
            continue
        live, owners = _do(live, owners, step["do"])
        assert live == found["obj"]
        expected = [entry | {"fields": _normal(entry["fields"])} for entry in found["managed"]]
        assert _show(owners) == sorted(expected, key=_rank)
        assert msgspec.json.encode(field_sets.write_managers(owners))
