"""Words that docs/style.md rejects name no module, class or function: the field's words, or the glossary's, do."""

import ast
from collections.abc import Iterator

import pytest

from tools import source_analysis

FOLDERS = ("src", "tests", "tools", "testbed", "benchmarks")

MODULES = frozenset({
    "aging", "beginning", "completing", "consequences", "decide", "deeds", "desk", "docket", "draining",
    "ending", "filling", "following", "gates", "hashed", "helping", "holdings", "keeping", "kinds", "kits",
    "latecomers", "leaving", "likeness", "listening", "marking", "newcomers", "outlook", "paying", "picking",
    "placing", "proposing", "prospects", "pulse", "questions", "quiet", "raising", "rebasing", "rechecking",
    "refusals", "refusing", "remembering", "repairs", "returning", "rhythm", "scene", "searching", "seats",
    "serving", "student", "swept", "tallies", "telling", "trials", "troubles", "trying", "turns", "unforeseen",
    "unkept", "untried", "whole_groups", "wishes", "wiring",
})  # fmt: skip
"""Gerunds and images, and modules that have another name now."""

CLASSES = frozenset({
    "Alike", "Bystander", "Case", "Course", "Dealings", "Deeds", "Desk", "Docket", "Gate", "Gates", "Hands",
    "Helped", "Inquiry", "Jumps", "Keeper", "Kind", "Known", "Offer", "Opinion", "Outcome", "Progress",
    "Prospects", "Purse", "Raising", "Reluctance", "Remaining", "Said", "Scene", "Seen", "Sight", "Site",
    "Situation", "Spare", "Standing", "Thing", "Turns", "Verdict", "World", "Worth",
})  # fmt: skip
"""In the package. Tests may call a fixture so."""

FUNCTIONS = frozenset({
    "carry_out", "complain", "find_helpless", "get_well", "imagine", "judge", "let_in", "lift", "look_ahead",
    "make_up_pods", "meet_refusal", "restate", "retire", "spell", "stand_by", "take_for_granted", "take_turns",
})  # fmt: skip


def find_names(text: str) -> Iterator[tuple[str, str]]:
    """Each class and function of a module, without leading underscores, and what it is."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            yield "class", node.name.lstrip("_")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield "def", node.name.lstrip("_")


def find_rejected(text: str, in_package: bool) -> list[str]:
    return [
        name
        for kind, name in find_names(text)
        if (kind == "def" and name in FUNCTIONS) or (kind == "class" and in_package and name in CLASSES)
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_rejected_word_names_a_class_or_a_function(folder: str) -> None:
    paths = sorted((source_analysis.ROOT / folder).rglob("*.py"))
    assert paths
    rejected = {str(path): names for path in paths if (names := find_rejected(path.read_text(), folder == "src"))}
    assert rejected == {}


def test_no_rejected_word_names_a_module() -> None:
    package = source_analysis.ROOT / "src" / "windlass"
    assert sorted(str(path) for path in package.rglob("*") if path.name.removesuffix(".py") in MODULES) == []


def test_rejected_words_are_noticed() -> None:
    assert find_rejected("class _Desk:\n    def _judge(self): ...\n", in_package=True) == ["Desk", "judge"]
    assert find_rejected("class World: ...\n", in_package=False) == []
