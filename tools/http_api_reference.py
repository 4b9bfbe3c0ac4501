"""The HTTP API of the autoscaler: a JSON schema, read from the structs that are encoded, and a page about it."""

import enum
import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tools import markdown_tables, source_analysis
from windlass.explain.cluster import ClusterExplanation
from windlass.explain.groups import GroupExplanation
from windlass.explain.nodes import NodeExplanation
from windlass.explain.pods import PodExplanation
from windlass.observability import status_routes
from windlass.observability.status_model import DecisionReport, PublishedHistory, PublishedStatus, StatusChange

_GROUP = f"{status_routes.EXPLAIN_PATH}group/KIND/NAMESPACE/NAME"
ANSWERS: Mapping[str, tuple[type, str]] = {
    status_routes.PUBLISHED_PATH: (PublishedStatus, "the status after the last loop"),
    f"{status_routes.PUBLISHED_STREAM_PATH}, event `status`": (PublishedStatus, "the first of server-sent events"),
    f"{status_routes.PUBLISHED_STREAM_PATH}, event `change`": (
        StatusChange,
        "one after each loop that changed something",
    ),
    status_routes.HISTORY_PATH: (PublishedHistory, "samples and decisions of the past; `?after=SECONDS`: later ones"),
    f"{status_routes.PUBLISHED_PATH}/decisions/NUMBER": (
        DecisionReport,
        "one decision: options, pods, refusals, what followed",
    ),
    f"{status_routes.EXPLAIN_PATH}pod/NAMESPACE/NAME": (PodExplanation, "why a pod waits, or what becomes of it"),
    f"{status_routes.EXPLAIN_PATH}node/NAME": (NodeExplanation, "why a node stays, or goes"),
    _GROUP: (GroupExplanation, "size, health and template of a node group"),
    status_routes.STATUSZ_PATH: (ClusterExplanation, "the cluster as a whole"),
}
"""What is answered, by path."""
_FORMATS = (
    "`?output=text` gives the answers of `explain` and `statusz` as text, as the commands print them. Event `beat` of "
    "the stream has the time of the process and what is wrong. A client that reconnects with `Last-Event-ID` gets the "
    "changes that it missed, or the whole status."
)
_STATUSES = (
    ("200", "the answer"),
    ("401", "on `--dashboard-address`: no token"),
    ("403", "on `--address`: not from this machine, or `--enable-debugging-handlers=false`"),
    ("404", "no such object; the text names similar ones"),
    ("405", "another method"),
    ("421", "another Host than that of this machine"),
    ("503", "this process does not lead, or has not decided yet; the text says which"),
)
_REST = (
    "Any status but 200 comes with text. `/metrics` ([series](metrics.md)), `/health-check`, `/healthz`, `/livez` and "
    "`/readyz` are for everybody."
)
_STABILITY = (
    "**Stability.** Fields may be added; ignore what you do not know. A field that is at its default is left out of "
    "nodes, groups, pods and decisions. Names and meanings change with a minor version at most, which the changelog "
    "says ([compatibility](../compatibility.md)). Times are seconds since the epoch, durations seconds, shares "
    "fractions of what is allocatable."
)


def find_types() -> dict[str, type]:
    """Every struct, dataclass and enum that an answer can hold, by its name in the schema."""
    found: dict[str, type] = {}
    for kind, _ in ANSWERS.values():
        _collect(msgspec.inspect.type_info(kind), found)
    return found


def _collect(info: object, found: dict[str, type]) -> None:
    match info:
        case msgspec.inspect.StructType() | msgspec.inspect.DataclassType():
            name = f"{info.cls.__module__}.{info.cls.__qualname__}"
            if name not in found:
                found[name] = info.cls
                for field in info.fields:
                    _collect(field.type, found)
        case msgspec.inspect.EnumType():
            found[f"{info.cls.__module__}.{info.cls.__qualname__}"] = info.cls
        case msgspec.inspect.UnionType():
            for item in info.types:
                _collect(item, found)
        case msgspec.inspect.VarTupleType() | msgspec.inspect.ListType():
            _collect(info.item_type, found)
        case msgspec.inspect.TupleType():
            for item in info.item_types:
                _collect(item, found)
        case msgspec.inspect.DictType():
            _collect(info.value_type, found)


@functools.cache
def definitions() -> dict[str, dict[str, Any]]:
    """The schema of every type, by name, with the sentences that stand beside its fields."""
    kinds = tuple(dict.fromkeys(kind for kind, _ in ANSWERS.values()))
    _, found = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    types = find_types()
    text = json.dumps(found)
    for name in sorted(found, key=len, reverse=True):
        text = text.replace(f'"#/$defs/{name}"', f'"#/$defs/{_to_text(name)}"')
    described = json.loads(text)
    for name in found:
        kind = types.get(name) or next(each for each in types.values() if each.__name__ == name)
        _describe(described[name], kind)
    return {_to_text(name): described[name] for name in found}


def _to_text(name: str) -> str:
    """Two types of one name are told apart by their modules, of which a reader needs the last word only."""
    *above, last = name.split(".")
    return "".join(word.capitalize() for word in above[-1].split("_")) + last if above else last


def _describe(schema: dict[str, Any], kind: type) -> None:
    told = {name: text for name, _, text in source_analysis.find_told(kind.__module__, kind.__name__)}
    schema.pop("title", None)
    schema["description"] = " ".join(schema.get("description", "").split())
    for name, field in schema.get("properties", {}).items():
        if told.get(name):
            # Whatever stands beside a reference is not read by every reader.
            schema["properties"][name] = {"description": told[name], **field}
    if issubclass(kind, enum.Enum):
        words = [f"{item.value}: {told[item.name]}" for item in kind if told.get(item.name)]
        schema["description"] = " ".join([schema["description"], *words])
    if "prefixItems" in schema:
        schema["description"] += f" An array: {', '.join(field.name for field in msgspec.structs.fields(kind))}."


def make_schema() -> str:
    """docs/reference/http-api.schema.json."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "HTTP API of windlass autoscaler",
        "description": "Made by `make reference`. Which path answers with which definition is in http-api.md.",
    }
    return json.dumps({**head, "$defs": definitions()}, indent=2, ensure_ascii=False) + "\n"


def page() -> str:
    """docs/reference/http-api.md."""
    lines = markdown_tables.begin(
        "HTTP API",
        "What `windlass autoscaler` answers over HTTP, as JSON. The schema is "
        "[http-api.schema.json](http-api.schema.json), made from the code; a test holds live answers to it.",
        "Served on `--address` to callers on the same machine (`kubectl port-forward`), and on `--dashboard-address` "
        "to holders of the token ([security](../security.md#listening-ports)). GET and HEAD only. Nothing is changed "
        "by a request.",
    )
    rows = [
        (_path(path), f"[{kind.__name__}](#{kind.__name__.lower()})", told) for path, (kind, told) in ANSWERS.items()
    ]
    lines += markdown_tables.table(("path", "answer", "what it is"), rows)
    lines += [_FORMATS, "", *markdown_tables.table(("status", "when"), _STATUSES), _REST, "", _STABILITY, ""]
    for name, schema in definitions().items():
        lines += [f"## {name}", "", schema["description"], ""]
        if schema.get("properties"):
            lines += markdown_tables.table(("field", "type", "what it is"), _rows(schema))
        elif "enum" in schema:
            lines += [", ".join(map(markdown_tables.code, schema["enum"])), ""]
    return "\n".join(lines)


def _path(text: str) -> str:
    path, comma, rest = text.partition(",")
    return f"{markdown_tables.code(path)}{comma}{rest}"


def _rows(schema: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, field in schema["properties"].items():
        yield markdown_tables.code(name), _type(field), field.get("description", "")


def _type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in field:
        return " or ".join(_type(item) for item in field["anyOf"])
    if field.get("type") == "array":
        return f"array of {_type(field['items'])}" if isinstance(field.get("items"), dict) else "array"
    if isinstance(field.get("additionalProperties"), dict):
        return f"object of {_type(field['additionalProperties'])}"
    if "enum" in field:
        return ", ".join(map(markdown_tables.code, field["enum"]))
    return str(field.get("type", "any"))
