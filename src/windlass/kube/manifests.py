"""Manifests: YAML documents and configuration files, read as Kubernetes reads them.

Kubernetes' YAML is 1.1 with exceptions, and Python's has others: here `y` and `off` are booleans, but `12:30` is no
number and a date is text.
"""

import re
from collections.abc import Hashable, Iterator
from typing import Any, TypeVar

import msgspec
import yaml

from windlass import errors
from windlass.kube import fields, nesting

Model = TypeVar("Model", bound=msgspec.Struct)

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one written in C is ten times as fast; it is there unless PyYAML was built without."""

_TAG = "tag:yaml.org,2002:"
_EXPONENT = "(?:[eE][-+]?[0-9]+)?"
_PLAIN: tuple[tuple[str, str, str], ...] = (
    ("bool", "yYnNtTfFoO", r"[yYnN]|yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF"),
    ("null", "~nN\0", r"~|null|Null|NULL|"),
    (
        "int",
        "-+0123456789",
        r"[-+]?(?:0b_*[01][01_]*|0o_*[0-7][0-7_]*|0x_*[0-9a-fA-F][0-9a-fA-F_]*|0[0-7_]*|[1-9][0-9_]*)",
    ),
    (
        "float",
        "-+.0123456789",
        rf"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?){_EXPONENT}|[-+]?\.(?:inf|Inf|INF)|\.nan",
    ),
    ("merge", "<", r"<<"),
)
"""What unquoted text stands for: the type, first characters that may begin it, and its whole spelling."""

_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(?P<field>.*?)`(?: - at `\$\.?(?P<path>.*)`)?")
_STEP = re.compile(r"[^.\[\]]+")


class _Documents(_Loader):  # type: ignore[misc]
    """Unquoted text means what it means to Kubernetes."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012
    bool_values = {**_Loader.bool_values, "y": True, "n": False}  # noqa: RUF012
    is_suspect = True
    """Has it aliases, which may stand for more than any memory holds?"""

    def construct_document(self, node: yaml.Node) -> Any:
        if self.is_suspect:
            nesting.check(node)
        return super().construct_document(node)


for _type, _first, _spelling in _PLAIN:
    _Documents.add_implicit_resolver(_TAG + _type, re.compile(rf"(?:{_spelling})\Z"), [c.strip("\0") for c in _first])


class _StrictDocuments(_Documents):
    """Besides, a key may not be there twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag == _TAG + "str" and key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key.value!r} is there twice", key.start_mark)
            if isinstance(key.value, str):
                seen.add(key.value)
        return super().construct_mapping(node, deep)  # type: ignore[no-any-return]


def read(text: bytes | str, source: str, *, strict: bool = False) -> Iterator[Any]:
    """The documents of a YAML text, but empty ones; `source` names it in errors. InvalidInput where it is not YAML."""
    try:
        is_suspect = nesting.scan(text)
        loader = (_StrictDocuments if strict else _Documents)(text)
    except yaml.YAMLError as error:
        raise errors.InvalidInput(f"{source}: {_complain(error)}") from error
    loader.is_suspect = is_suspect
    try:
        while loader.check_data():
            document = loader.get_data()
            if document is not None:
                yield document
    except yaml.YAMLError as error:
        raise errors.InvalidInput(f"{source}: {_complain(error)}") from error
    except (RecursionError, ValueError) as error:  # nested deeper than can be read, a number with too many digits
        raise errors.InvalidInput(f"{source}: {error}") from error
    finally:
        loader.dispose()


def _complain(error: yaml.YAMLError) -> str:
    """Where it stopped being YAML, and why."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return f"{at}{problem}" if isinstance(error, yaml.constructor.ConstructorError) else f"{at}not YAML: {problem}"


# Reading into a model whose fields are all there are


def decode(raw: bytes | str | msgspec.Raw, model: type[Model], within: str = "") -> Model:
    """JSON as a model that forbids unknown fields. InvalidField, with a path that begins `within`, if it is not one."""
    try:
        return msgspec.json.decode(raw, type=model)
    except msgspec.ValidationError as error:
        unknown = _UNKNOWN_FIELD.fullmatch(str(error))
        if unknown is None:
            raise fields.translate(error, raw, within) from error
        at = ".".join(part for part in (within, unknown["path"] or "") if part) or "the document"
        accepted = ", ".join(_field_names(model, unknown["path"] or ""))
        raise fields.InvalidField(at, unknown["field"], f"only the fields {accepted}") from error


def _field_names(model: Any, path: str) -> list[str]:
    """The fields that a model has at a path."""
    kind: Any = msgspec.inspect.type_info(model)
    for step in _STEP.findall(path):
        kind = _but_null(kind)
        if isinstance(kind, msgspec.inspect.StructType):
            kind = next(field.type for field in kind.fields if field.encode_name == step)
        elif isinstance(kind, msgspec.inspect.ListType):
            kind = kind.item_type
    return [field.encode_name for field in _but_null(kind).fields]


def _but_null(kind: Any) -> Any:
    if isinstance(kind, msgspec.inspect.UnionType):
        return next(member for member in kind.types if not isinstance(member, msgspec.inspect.NoneType))
    return kind
