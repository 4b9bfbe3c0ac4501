"""Verdicts: why nodes stay, what drains wait for, why they fail, and what is done, as metrics and `explain` say it."""

import ast
import re
from collections.abc import Iterator

from handbook import source, tables

_KEPT = "windlass.engine.model.scale_down_state"
_REMOVAL = "windlass.engine.scale_down.simulation"
_NUMBER = re.compile(r"\{(found|limit):[^}]*\}")
_HEAD = ("word", "what it means")


def page() -> str:
    lines = tables.begin(
        "Why nodes stay, and how they go",
        "Words that metrics carry as labels, and that `windlass explain node` and `windlass status` give as sentences.",
    )
    stay = "`cluster_autoscaler_unremovable_nodes_count{reason}`; *n* and *m* stand for numbers."
    back = "In the event [ScaleDownFailed](../runbook.md#scaledownfailed), and in `windlass explain node`."
    parts = (
        ("Why a node stays", stay, find_kept()),
        ("What a node on its way out waits for", "`windlass_draining_nodes{phase}`.", find_phases()),
        ("Why a node is given back", back, find_failures()),
        ("What is done", "`windlass_instructions_total{kind}`.", find_instructions()),
        ("What a shadow finds", "`windlass_shadow_verdicts_total{verdict}`.", find_comparisons()),
    )
    for title, where, found in parts:
        rows = ((tables.code(word), told) for word, told in found)
        lines += [f"## {title}", "", where, "", *tables.table(_HEAD, rows)]
    return "\n".join(lines)


def find_kept() -> Iterator[tuple[str, str]]:
    """(reason, sentence about "the node")."""
    module = source.modules()[_KEPT]
    sayings = module.values["_SAYINGS"]
    assert isinstance(sayings, ast.Dict)
    values = dict(_members(_REMOVAL, "Unremovable"))
    for key, said in zip(sayings.keys, sayings.values, strict=True):
        assert isinstance(key, ast.Attribute)
        text = next(source.resolve(module, said))
        yield values[key.attr], f"It {_NUMBER.sub(lambda found: '*n*' if found[1] == 'found' else '*m*', text)}."


def find_phases() -> Iterator[tuple[str, str]]:
    """(phase, sentence), but for those in which a drain has ended."""
    return (one for one in _enum("windlass.engine.model.drains", "Phase") if one[1])


def find_failures() -> Iterator[tuple[str, str]]:
    return _enum("windlass.engine.model.drains", "Why")


def find_comparisons() -> Iterator[tuple[str, str]]:
    return _enum("windlass.autoscaler.shadow_comparison", "Kind")


def find_instructions() -> Iterator[tuple[str, str]]:
    """Kinds of instructions, by the first line of their docstring."""
    for node in source.modules()["windlass.engine.model.plan"].tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name, (ast.get_docstring(node) or "").partition("\n\n")[0]


def _enum(module: str, kind: str) -> Iterator[tuple[str, str]]:
    for _, statement, told in source.find_told(module, kind):
        if isinstance(statement, ast.Assign):
            for value in source.resolve(source.modules()[module], statement.value):
                yield value, told


def _members(module: str, kind: str) -> Iterator[tuple[str, str]]:
    for name, statement, _ in source.find_told(module, kind):
        if isinstance(statement, ast.Assign):
            yield from ((name, value) for value in source.resolve(source.modules()[module], statement.value))
