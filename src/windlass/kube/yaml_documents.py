"""YAML documents and configuration files, read as Kubernetes reads them, within limits of depth and size.

Kubernetes' YAML is 1.1 with exceptions, and PyYAML's has others: here `y` and `off` are booleans, `12:30` is a string
and a date is text. Aliases that expand beyond any memory are refused before anything is constructed.
"""

import re
from collections.abc import Hashable, Iterator
from typing import Any, TypeVar

import msgspec
import yaml

from windlass import errors
from windlass.kube import fields

MAX_VALUES = 5_000_000
"""Maximum values of a text, above any list of objects in practice."""

MAX_DEPTH = 200
"""Maximum depth, since later processing may recurse. API objects have some ten levels."""

MAX_EVENTS = 2 * MAX_VALUES
"""Maximum parser events: one per value, and one per end of a list or mapping."""

_TOO_DEEP = f"it is nested more than {MAX_DEPTH} deep"

_TOO_LARGE = f"it stands for more than {MAX_VALUES:,} values"

_Events: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_WHOLE = (yaml.SequenceNode, yaml.MappingNode)


def load_yaml(text: str) -> Any:
    """Load the single YAML 1.1 document of a text. YAMLError if it is malformed or exceeds the limits."""
    try:
        if needs_limit_check(text) and (node := yaml.compose(text, Loader=yaml.SafeLoader)) is not None:
            check_limits(node)
        return yaml.safe_load(text)
    except RecursionError as error:
        raise yaml.YAMLError(_TOO_DEEP) from error
    except ValueError as error:  # such as an invalid date or a number with too many digits
        raise yaml.YAMLError(str(error)) from error


def needs_limit_check(text: bytes | str) -> bool:
    """True if limits must be checked after composing, because of aliases.

    ConstructorError, with position, if composing would exceed the limits.
    """
    loader = _Events(text)
    levels = parts = 0
    has_aliases = False
    try:
        while (event := loader.get_event()) is not None:
            if isinstance(event, yaml.CollectionStartEvent):
                levels += 1
                _raise_if(levels > MAX_DEPTH, event, _TOO_DEEP)
            elif isinstance(event, yaml.CollectionEndEvent):
                levels -= 1
            elif isinstance(event, yaml.AliasEvent):
                has_aliases = True
            elif isinstance(event, yaml.DocumentStartEvent):
                parts = 0
            parts += 1
            _raise_if(parts > MAX_EVENTS, event, _TOO_LARGE)
    except yaml.constructor.ConstructorError:
        raise
    except yaml.YAMLError:
        return True  # composing raises the same error with its position
    finally:
        loader.dispose()
    return has_aliases


def check_limits(root: yaml.Node) -> None:
    """Check the limits of a composed document.

    ConstructorError, with position, if it exceeds them or contains itself.
    """
    sizes: dict[int, int] = {}
    opened: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting[-1]
        if id(node) in sizes:
            waiting.pop()
            continue
        parts = _child_nodes(node)
        if id(node) in opened:
            opened.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes.get(id(part), 1) for part in parts)
            _raise_if(sizes[id(node)] > MAX_VALUES, node, _TOO_LARGE)
            continue
        opened.add(id(node))
        _raise_if(len(opened) > MAX_DEPTH, node, _TOO_DEEP)
        inner = [part for part in parts if isinstance(part, _WHOLE)]
        _raise_if(any(id(part) in opened for part in inner), node, "it stands for itself")
        waiting += inner


def _child_nodes(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _raise_if(is_wrong: bool, place: Any, reason: str) -> None:
    if is_wrong:
        raise yaml.constructor.ConstructorError(None, None, reason, place.start_mark)


Model = TypeVar("Model", bound=msgspec.Struct)

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The C loader if available, which is ten times as fast."""

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
"""Implicit types of plain scalars: tag, possible first characters, pattern."""

_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(?P<field>.*?)`(?: - at `\$\.?(?P<path>.*)`)?")

_STEP = re.compile(r"[^.\[\]]+")


class _KubernetesLoader(_Loader):  # type: ignore[misc]
    """A loader with the implicit types of Kubernetes."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012
    bool_values = {**_Loader.bool_values, "y": True, "n": False}  # noqa: RUF012
    is_suspect = True
    """True if the text has aliases, which may expand without limit."""

    def construct_document(self, node: yaml.Node) -> Any:
        if self.is_suspect:
            check_limits(node)
        return super().construct_document(node)


for _type, _first, _spelling in _PLAIN:
    _KubernetesLoader.add_implicit_resolver(
        _TAG + _type, re.compile(rf"(?:{_spelling})\Z"), [c.strip("\0") for c in _first]
    )


class _StrictLoader(_KubernetesLoader):
    """A loader that also rejects duplicate keys."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag == _TAG + "str" and key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key.value!r} is there twice", key.start_mark)
            if isinstance(key.value, str):
                seen.add(key.value)
        return super().construct_mapping(node, deep)  # type: ignore[no-any-return]


def read_documents(text: bytes | str, source: str, *, strict: bool = False) -> Iterator[Any]:
    """The non-empty documents of a YAML text; `source` names it in errors. InvalidInput if it is malformed."""
    try:
        is_suspect = needs_limit_check(text)
        loader = (_StrictLoader if strict else _KubernetesLoader)(text)
    except yaml.YAMLError as error:
        raise errors.InvalidInput(f"{source}: {_describe_yaml_error(error)}") from error
    loader.is_suspect = is_suspect
    try:
        while loader.check_data():
            document = loader.get_data()
            if document is not None:
                yield document
    except yaml.YAMLError as error:
        raise errors.InvalidInput(f"{source}: {_describe_yaml_error(error)}") from error
    except (RecursionError, ValueError) as error:  # nested too deep, or a number with too many digits
        raise errors.InvalidInput(f"{source}: {error}") from error
    finally:
        loader.dispose()


def _describe_yaml_error(error: yaml.YAMLError) -> str:
    """Position and reason of a YAML error."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return f"{at}{problem}" if isinstance(error, yaml.constructor.ConstructorError) else f"{at}not YAML: {problem}"


# Strict decoding


def decode_strict(raw: bytes | str | msgspec.Raw, model: type[Model], within: str = "") -> Model:
    """Decode JSON and forbid unknown fields.

    InvalidField, with a path that begins with `within`, if it does not match.
    """
    try:
        return msgspec.json.decode(raw, type=model)
    except msgspec.ValidationError as error:
        unknown = _UNKNOWN_FIELD.fullmatch(str(error))
        if unknown is None:
            raise fields.translate_decode_error(error, raw, within) from error
        at = ".".join(part for part in (within, unknown["path"] or "") if part) or "the document"
        accepted = ", ".join(_field_names(model, unknown["path"] or ""))
        raise fields.InvalidField(at, unknown["field"], f"only the fields {accepted}") from error


def _field_names(model: Any, path: str) -> list[str]:
    """The field names of a model at a path."""
    kind: Any = msgspec.inspect.type_info(model)
    for step in _STEP.findall(path):
        kind = _without_null(kind)
        if isinstance(kind, msgspec.inspect.StructType):
            kind = next(field.type for field in kind.fields if field.encode_name == step)
        elif isinstance(kind, msgspec.inspect.ListType):
            kind = kind.item_type
    return [field.encode_name for field in _without_null(kind).fields]


def _without_null(kind: Any) -> Any:
    if isinstance(kind, msgspec.inspect.UnionType):
        return next(member for member in kind.types if not isinstance(member, msgspec.inspect.NoneType))
    return kind
