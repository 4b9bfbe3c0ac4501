"""Priority expander configuration: the ConfigMap `cluster-autoscaler-priority-expander`, key `priorities`, in YAML.

    50:
      - .*spot.*
    10:
      - .*

Parsed as Cluster Autoscaler does: priorities are integers, quoted or not; a priority without expressions has none; a
number or bool in place of an expression is taken as its text.
"""

from collections.abc import Mapping

import yaml

from windlass.engine.expanders import priority
from windlass.errors import InvalidInput, InvalidObject
from windlass.kube import yaml_documents
from windlass.observability import options
from windlass.selectors import parse_int64

PRIORITIES_KEY = "priorities"

_FORMAT = "a YAML mapping of whole numbers to lists of regular expressions"


def read_config_map(namespace: str, data: Mapping[str, str]) -> tuple[priority.PriorityRule, ...]:
    """Read the rules from the data of the ConfigMap. InvalidObject if they are invalid."""
    found = f"{namespace}/{options.PRIORITY_CONFIG_MAP}"
    if PRIORITIES_KEY not in data:
        raise InvalidObject("ConfigMap", found, "data", sorted(data), f"the key {PRIORITIES_KEY}")
    try:
        return parse_priorities(data[PRIORITIES_KEY])
    except InvalidInput as error:
        raise InvalidObject(
            "ConfigMap", found, f"data[{PRIORITIES_KEY}]", data[PRIORITIES_KEY], f"{_FORMAT} ({error})"
        ) from error


def parse_priorities(text: str) -> tuple[priority.PriorityRule, ...]:
    """Parse the rules. InvalidInput says what is wrong."""
    if not text:
        raise InvalidInput(f"it is empty, expected {_FORMAT}")
    try:
        document = yaml_documents.load_yaml(text)
    except yaml.YAMLError as error:
        raise InvalidInput(f"it is not YAML: {error}") from error
    if document is None:
        return ()
    if not isinstance(document, dict):
        raise InvalidInput(f"found {document!r:.100}, expected {_FORMAT}")
    return priority.compile_rules({_read_priority(key): _read_list(key, value) for key, value in document.items()})


def _read_priority(key: object) -> int:
    number = parse_int64(str(key)) if isinstance(key, str | int) and not isinstance(key, bool) else None
    if number is None:
        raise InvalidInput(f"found the priority {key!r}, expected a whole number")
    return number


def _read_list(key: object, value: object) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidInput(f"priority {key}: found {value!r:.100}, expected a list of regular expressions")
    return [_read_expression(key, item) for item in value]


def _read_expression(key: object, item: object) -> str:
    match item:
        case None:
            return ""
        case bool():
            return str(item).lower()
        case str() | int():
            return str(item)
        case _:
            raise InvalidInput(f"priority {key}: found {item!r} in the list, expected a regular expression; quote it")
