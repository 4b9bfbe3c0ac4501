"""How large a YAML document is once each alias is replaced by what it stands for, and how deep.

A few lines of aliases of aliases stand for more than any memory holds, and one that stands for itself never ends. Such
a document is refused before anything is made of it. Depth is counted on the stream of events before nodes are made:
PyYAML composes recursively, in C, and some ten thousand levels end the process.
"""

from typing import Any

import yaml

MOST_PARTS = 5_000_000
"""Larger than any list of objects that people write as YAML."""
DEEPEST = 200
"""API objects are some ten levels deep; whoever reads a document further may go round once a level."""

MOST_EVENTS = 2 * MOST_PARTS
"""Every value is an event, and the end of each list or mapping is one more."""

_TOO_DEEP = f"it is nested more than {DEEPEST} deep"
_TOO_LARGE = f"it stands for more than {MOST_PARTS:,} values"
_Events: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WHOLE = (yaml.SequenceNode, yaml.MappingNode)


def load(text: str) -> Any:
    """The one document of a text, by the rules of YAML 1.1. YAMLError where it is none, or too much of one."""
    try:
        if scan(text) and (node := yaml.compose(text, Loader=yaml.SafeLoader)) is not None:
            check(node)
        return yaml.safe_load(text)
    except RecursionError as error:
        raise yaml.YAMLError(_TOO_DEEP) from error
    except ValueError as error:  # a date that does not exist, a number with too many digits
        raise yaml.YAMLError(str(error)) from error


def scan(text: bytes | str) -> bool:
    """Whether documents of a text have to be checked once they are composed: they have aliases, or are no YAML.

    ConstructorError, which has the place, if composing them would go too deep or make too much.
    """
    loader = _Events(text)
    levels = parts = 0
    has_aliases = False
    try:
        while (event := loader.get_event()) is not None:
            if isinstance(event, yaml.CollectionStartEvent):
                levels += 1
                _refuse_if(levels > DEEPEST, event, _TOO_DEEP)
            elif isinstance(event, yaml.CollectionEndEvent):
                levels -= 1
            elif isinstance(event, yaml.AliasEvent):
                has_aliases = True
            elif isinstance(event, yaml.DocumentStartEvent):
                parts = 0
            parts += 1
            _refuse_if(parts > MOST_EVENTS, event, _TOO_LARGE)
    except yaml.constructor.ConstructorError:
        raise
    except yaml.YAMLError:
        return True  # composing meets the same fault at the same place, and says what it is
    finally:
        loader.dispose()
    return has_aliases


def check(root: yaml.Node) -> None:
    """ConstructorError, which has the place, if it is too large, too deep or within itself."""
    sizes: dict[int, int] = {}
    opened: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting[-1]
        if id(node) in sizes:
            waiting.pop()
            continue
        parts = _parts(node)
        if id(node) in opened:
            opened.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes.get(id(part), 1) for part in parts)
            _refuse_if(sizes[id(node)] > MOST_PARTS, node, _TOO_LARGE)
            continue
        opened.add(id(node))
        _refuse_if(len(opened) > DEEPEST, node, _TOO_DEEP)
        inner = [part for part in parts if isinstance(part, _WHOLE)]
        _refuse_if(any(id(part) in opened for part in inner), node, "it stands for itself")
        waiting += inner


def _parts(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _refuse_if(is_wrong: bool, place: Any, why: str) -> None:
    if is_wrong:
        raise yaml.constructor.ConstructorError(None, None, why, place.start_mark)
