"""How large a YAML document is once each alias is replaced by what it stands for, and how deep.

A few lines of aliases of aliases stand for more than any memory holds, and one that stands for itself never ends. Such
a document is refused before anything is made of it.
"""

from typing import Any

import yaml

MOST_PARTS = 5_000_000
"""Larger than any list of objects that people write as YAML."""
DEEPEST = 200
"""API objects are some ten levels deep; whoever reads a document further may go round once a level."""

_WHOLE = (yaml.SequenceNode, yaml.MappingNode)


def load(text: str) -> Any:
    """The one document of a text, by the rules of YAML 1.1. YAMLError where it is none, or too much of one."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None:
            check(node)
        return yaml.safe_load(text)
    except RecursionError as error:
        raise yaml.YAMLError(f"it is nested more than {DEEPEST} deep") from error
    except ValueError as error:  # a date that does not exist, a number with too many digits
        raise yaml.YAMLError(str(error)) from error


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
            _refuse_if(sizes[id(node)] > MOST_PARTS, node, f"it stands for more than {MOST_PARTS:,} values")
            continue
        opened.add(id(node))
        _refuse_if(len(opened) > DEEPEST, node, f"it is nested more than {DEEPEST} deep")
        inner = [part for part in parts if isinstance(part, _WHOLE)]
        _refuse_if(any(id(part) in opened for part in inner), node, "it stands for itself")
        waiting += inner


def _parts(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _refuse_if(is_wrong: bool, node: yaml.Node, why: str) -> None:
    if is_wrong:
        raise yaml.constructor.ConstructorError(None, None, why, node.start_mark)
