"""Sizes, import chains and traces are what they are said to be, on a few small modules."""

import ast

import pytest

from tools import code_structure
from tools.code_structure import Scope, Structure, Trace
from windlass import quantity

AMOUNT = quantity.parse_quantity("1500m")
EMPTY = '"""Nothing but a docstring."""\n'
CHAINED = {
    "windlass": EMPTY,
    "windlass.engine": EMPTY,
    "windlass.engine.loop": "from windlass.engine import steps\nfrom windlass.engine.rules import check\n",
    "windlass.engine.steps": "import windlass.engine.rules\nimport os\n",
    "windlass.engine.rules": "from windlass import values\n\ndef check(): ...\n",
    "windlass.values": "AMOUNT = 1\n" * 50,
    "windlass.cli": (
        "try:\n    from windlass.engine import loop\nexcept ImportError: ...\n\n"
        "def run():\n    from windlass import late\n"
    ),
    "windlass.late": "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from windlass import cli\n",
}


def structure(texts: dict[str, str]) -> Structure:
    return Structure(
        {name: ast.parse(text) for name, text in texts.items()},
        {name: text.count("\n") for name, text in texts.items()},
    )


def test_a_package_file_with_a_docstring_alone_has_no_code() -> None:
    assert structure(CHAINED).with_code == [name for name in CHAINED if name not in ("windlass", "windlass.engine")]


@pytest.mark.parametrize(
    ("name", "imported"),
    [
        ("windlass.engine.loop", {"windlass.engine.steps", "windlass.engine.rules"}),
        ("windlass.engine.steps", {"windlass.engine.rules"}),
        ("windlass.engine.rules", {"windlass.values"}),
        ("windlass.cli", {"windlass.engine.loop"}),
        ("windlass.late", set()),
    ],
)
def test_what_a_module_imports_is_what_it_imports_when_it_is_imported_itself(name: str, imported: set[str]) -> None:
    assert structure(CHAINED).imports[name] == imported


def test_the_longest_chain_is_counted_within_a_package_and_in_whole() -> None:
    made = structure(CHAINED)
    assert made.longest_chain("windlass.engine") == [
        "windlass.engine.loop",
        "windlass.engine.steps",
        "windlass.engine.rules",
    ]
    assert made.longest_chain("windlass") == [
        "windlass.cli",
        "windlass.engine.loop",
        "windlass.engine.steps",
        "windlass.engine.rules",
        "windlass.values",
    ]


def test_imports_inside_functions_and_for_type_checkers_are_counted_apart() -> None:
    made = structure(CHAINED)
    assert made.find_imports(Scope.AT_RUN_TIME)["windlass.cli"] == {"windlass.engine.loop", "windlass.late"}
    assert made.find_imports(Scope.AT_RUN_TIME)["windlass.late"] == set()
    assert made.find_imports(Scope.ALL)["windlass.late"] == {"windlass.cli"}
    assert len(made.longest_chain("windlass", Scope.ALL)) == 6


def test_a_cycle_is_no_chain() -> None:
    made = structure({"windlass.a": "from windlass import b\n", "windlass.b": "from windlass import a\n"})
    with pytest.raises(RecursionError):
        made.longest_chain("windlass")
    assert len(made.longest_chain("windlass", Scope.AT_RUN_TIME)) == 2


def test_modules_and_chains_stay_within_their_bounds() -> None:
    present = Structure.read()
    assert len(present.trees) <= code_structure.MAX_MODULES
    engine, chain = present.longest_chain("windlass.engine"), present.longest_chain("windlass")
    assert len(engine) <= code_structure.MAX_ENGINE_CHAIN, "\n".join(engine)
    assert len(chain) <= code_structure.MAX_CHAIN, "\n".join(chain)


def test_a_trace_counts_functions_of_the_package_once_each() -> None:
    def call() -> None:
        for _ in range(3):
            quantity.saturate_int64(AMOUNT)
        ast.parse("1")

    once = code_structure.trace(lambda: quantity.saturate_int64(AMOUNT))
    assert once.functions >= 1
    assert once.modules == 1
    assert code_structure.trace(call) == once
    assert code_structure.trace(lambda: ast.parse("1")) == Trace(0, 0, 0)


def test_one_decision_runs_through_the_engine() -> None:
    trace = code_structure.trace_decision()
    assert trace.functions > trace.defs > trace.modules > 1


def test_the_table_tells_sizes_shares_and_chains() -> None:
    assert code_structure.describe(structure(CHAINED), Trace(7, 5, 3)).splitlines() == [
        "| measure | value |",
        "|---|---|",
        "| modules | 8, 2 of them a package's docstring alone |",
        "| lines | 69 |",
        "| lines of a module with code | median 4, longest 50 |",
        "| modules with code below 40 lines | 5 (83%) |",
        "| longest import chain inside the engine | 3 modules |",
        "| longest import chain | 5 modules |",
        "| the same with imports inside functions | 5 modules |",
        "| the same with imports for type checkers alone | 6 modules |",
        "| one decision for one pending pod | 7 functions, 5 of them `def`s, in 3 modules |",
    ]
