"""Verdicts: why nodes stay, what drains wait for, why they fail, and what is done, as metrics and `explain` say it."""

import ast
import re
from collections.abc import Iterator

from tools import markdown_tables, source_analysis

_KEPT = "windlass.engine.model.scale_down_state"
_NUMBER = re.compile(r"\{(found|limit):[^}]*\}")
_HEAD = ("word", "what it means")


def page() -> str:
    lines = markdown_tables.begin(
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
        rows = ((markdown_tables.code(word), told) for word, told in found)
        lines += [f"## {title}", "", where, "", *markdown_tables.table(_HEAD, rows)]
    return "\n".join(lines)


def find_kept() -> Iterator[tuple[str, str]]:
    """(reason, sentence about "the node")."""
    module = source_analysis.modules()[_KEPT]
    sayings = module.values["_DESCRIPTIONS"]
    assert isinstance(sayings, ast.Dict)
    values = dict(_members(_KEPT, "UnremovableReason"))
    for key, said in zip(sayings.keys, sayings.values, strict=True):
        assert isinstance(key, ast.Attribute)
        text = next(source_analysis.resolve(module, said))
        yield values[key.attr], f"It {_NUMBER.sub(lambda found: '*n*' if found[1] == 'found' else '*m*', text)}."


def find_phases() -> Iterator[tuple[str, str]]:
    """(phase, sentence), but for those in which a drain has ended."""
    return (item for item in _enum("windlass.engine.model.drains", "DrainPhase") if item[1])


def find_failures() -> Iterator[tuple[str, str]]:
    return _enum("windlass.engine.model.drains", "DrainFailureReason")


def find_comparisons() -> Iterator[tuple[str, str]]:
    return _enum("windlass.autoscaler.shadow_comparison", "VerdictKind")


def find_instructions() -> Iterator[tuple[str, str]]:
    """Kinds of instructions, by the first line of their docstring."""
    module = source_analysis.modules()["windlass.engine.model.plan"]
    unions = [value for name, value in module.values.items() if name.endswith("Instruction")]
    kinds = {node.id for union in unions for node in ast.walk(union) if isinstance(node, ast.Name)}
    for node in module.tree.body:
        if isinstance(node, ast.ClassDef) and node.name in kinds:
            yield node.name, (ast.get_docstring(node) or "").partition("\n\n")[0]


def _enum(module: str, kind: str) -> Iterator[tuple[str, str]]:
    for _, statement, told in source_analysis.find_told(module, kind):
        if isinstance(statement, ast.Assign):
            for value in source_analysis.resolve(source_analysis.modules()[module], statement.value):
                yield value, told


def _members(module: str, kind: str) -> Iterator[tuple[str, str]]:
    for name, statement, _ in source_analysis.find_told(module, kind):
        if isinstance(statement, ast.Assign):
            yield from (
                (name, value) for value in source_analysis.resolve(source_analysis.modules()[module], statement.value)
            )
