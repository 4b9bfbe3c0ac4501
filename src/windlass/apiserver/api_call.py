"""One API call: the resource and object that it addresses, its options and body, and the response."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from windlass import errors
from windlass.apiserver import status_errors
from windlass.apiserver.registry import Resource
from windlass.apiserver.value_types import Json
from windlass.apiserver.watch import RenderLine, Watch
from windlass.kube import yaml_documents

_LONGEST_MANAGER = 128
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")

_decode = msgspec.json.Decoder().decode


@dataclass(slots=True)
class ApiResponse:
    """A response: bytes, or a watch that produces them."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    watch: Watch | None = None


@dataclass(slots=True)
class ApiCall:
    """A request on a resource."""

    method: str
    resource: Resource
    namespace: str
    name: str
    subresource: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    now_s: float
    now: str
    """The same time in the format of API objects."""
    warnings: list[str] = field(default_factory=list)
    render: RenderLine | None = None
    """Form of objects in a watch, unless the client negotiates another."""

    @property
    def is_dry_run(self) -> bool:
        asked = self.query.get("dryRun", "")
        if asked and asked != "All":
            raise status_errors.invalid_kind(
                "", "", "", [status_errors.field_not_supported("dryRun", [asked], ["All"])]
            )
        return bool(asked)

    @property
    def field_validation(self) -> str:
        asked = self.query.get("fieldValidation", "")
        if asked not in _VALIDATIONS:
            errors = [status_errors.field_not_supported("fieldValidation", asked, _VALIDATIONS)]
            raise status_errors.invalid_kind(self._options, "meta.k8s.io", "", errors)
        return asked or "Warn"

    @property
    def _options(self) -> str:
        return {"POST": "CreateOptions", "PUT": "UpdateOptions"}.get(self.method, "PatchOptions")

    @property
    def manager(self) -> str:
        """The field manager of the request, or else its user agent."""
        asked = self.query.get("fieldManager", "")
        if len(asked) > _LONGEST_MANAGER:
            errors = [status_errors.field_too_long("fieldManager", _LONGEST_MANAGER)]
            raise status_errors.invalid_kind(self._options, "meta.k8s.io", "", errors)
        if asked:
            return asked
        agent = self.headers.get("user-agent", "").split("/")[0]
        return "".join(letter for letter in agent if letter.isprintable())[:_LONGEST_MANAGER]

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip()

    def read_body(self) -> Any:
        """The body as JSON or YAML."""
        return parse_document(self.body, self.content_type)

    def read_object(self) -> Json:
        obj = self.read_body()
        if not isinstance(obj, dict):
            kind = self.resource.kind
            raise status_errors.bad_request(f"the object provided is unrecognized (must be of type {kind}): no object")
        return obj

    def warn(self, message: str) -> None:
        if message not in self.warnings:
            self.warnings.append(message)


def parse_document(body: bytes, content_type: str) -> Any:
    """Parse JSON, or YAML by content type."""
    is_yaml = content_type in ("application/yaml", "application/apply-patch+yaml")
    if content_type in ("", "application/json") or body[:1] == b"{":
        try:
            return _decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            if not is_yaml:
                raise status_errors.bad_request(f"the object provided is unrecognized: {error}") from None
    if is_yaml:
        try:
            documents = [
                _with_string_keys(found) for found in yaml_documents.read_documents(body, "error decoding YAML")
            ]
        except errors.InvalidInput as error:
            raise status_errors.bad_request(str(error)) from None
        if len(documents) > 1:
            raise status_errors.bad_request("error decoding YAML: found several documents, expected one")
        return documents[0] if documents else None
    aside = " (protobuf is left to a real kube-apiserver)" if "protobuf" in content_type else ""
    raise status_errors.unsupported_media_type(("application/json", "application/yaml"), aside)


def parse_documents(text: str) -> list[Json]:
    """YAML documents, those that are empty left out."""
    return [_with_string_keys(found) for found in yaml_documents.read_documents(text, "manifest") if found]


def _with_string_keys(value: Any) -> Any:
    """YAML has keys of any type, JSON has strings: `on: x` is a key `true`."""
    if isinstance(value, dict):
        return {_key_text(key): _with_string_keys(item) for key, item in value.items()}
    return [_with_string_keys(item) for item in value] if isinstance(value, list) else value


def _key_text(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)
