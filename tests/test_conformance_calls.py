"""No recorded table runs through code that the live loop, or a controller, does not use.

A part that nothing wired may answer every recorded case and change no decision. So everything of the package that an
adapter in `tests/conformance` refers to must be referred to by a live process, transitively.
"""

import functools
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.call_graph import CallGraph, Module

ROOT = Path(__file__).parents[1]
ADAPTERS = {f"tests.conformance.{path.stem}": path for path in (ROOT / "tests" / "conformance").glob("*.py")}

LOOP = frozenset({"windlass.engine.loop.decide", "windlass.engine.drain_loop.advance"})
LIVE = tuple(
    f"windlass.{name}." for name in ("autoscaler", "observability", "controllers", "providers", "kube", "runtime")
)
"""Packages of live processes. What only `explain`, the simulator or a command uses, the loop does not use."""
ENGINE = "windlass.engine."

READS_AT_ONCE = "commands read a whole cluster at once, object by object as watches do"
BY_SERVERS = "a rule of a CRD, which API servers apply"
EXEMPT: Mapping[str, str] = {
    "windlass.autoscaler.readers.cluster_dump.read_objects": READS_AT_ONCE,
    "windlass.autoscaler.readers.cluster_dump.build_snapshot": READS_AT_ONCE,
    "windlass.controllers.openshift.machineset_sync.authority_migration.validate_spec": BY_SERVERS,
    "windlass.controllers.openshift.machineset_sync.authority_migration.default_spec": BY_SERVERS,
}
"""What adapters may use though no live process does, and why."""


@functools.cache
def graph() -> CallGraph:
    return CallGraph.read(ROOT / "src", "windlass")


@functools.cache
def is_used(name: str) -> bool:
    """Does the loop use it, or a live process?"""
    if name in LOOP:
        return True
    found = graph().find_path(name, lambda one: one in LOOP or one.startswith(LIVE), lambda one: one.startswith(ENGINE))
    return bool(found)


def find_unused(adapter: str) -> list[str]:
    """What an adapter refers to that no live process uses."""
    module = Module(adapter, ADAPTERS[adapter].read_text(encoding="utf-8"), {*graph().modules, *ADAPTERS})
    judged = [item for item in graph().find_direct(module) if item.startswith((ENGINE, *LIVE))]
    return [entry for entry in judged if not is_used(entry)]


@pytest.mark.parametrize("adapter", sorted(ADAPTERS))
def test_a_recorded_table_runs_only_through_code_that_a_live_process_uses(adapter: str) -> None:
    unused = [item for item in find_unused(adapter) if item not in EXEMPT]
    assert unused == [], (
        f"{adapter} runs through code that the loop does not use. Call what the loop calls instead, best of all "
        "`decide` itself (tests/conformance/loop.py), or wire the code and take it into the loop."
    )


def test_no_exemption_is_left_that_nothing_needs() -> None:
    found = {item for adapter in ADAPTERS for item in find_unused(adapter)}
    assert sorted(EXEMPT.keys() - found) == []


# ── The graph ────────────────────────────────────────────────────────────────────────────────────────────────────

PACKAGE = {
    "w.p": "",
    "w.p.loop": """
from w.p import rules, steps, plugins
from w.p.values import Purse, spend

def run(purse: Purse):
    for step in steps.STEPS:
        step()
    for plugin in plugins.ALL:
        plugin.judge()
    spend(purse)
    purse.remove(1)
    return purse.total

def forgotten():
    rules.unwired()
""",
    "w.p.steps": """
def first(): ...
def second(): ...
STEPS = (first,)
""",
    "w.p.rules": """
def unwired(): ...
def judge(): ...
def hidden(): ...
def add(): ...
""",
    "w.p.plugins": """
from w.p import plugin
ALL = (plugin,)
""",
    "w.p.plugin": """
def judge(): ...
def other(): ...
""",
    "w.p.values": """
from w.p.coins import spend
class Purse:
    def __init__(self): ...
    def remove(self, one): ...
    def pop(self): ...
    @property
    def total(self): return self._count()
    def _count(self): return 0
""",
    "w.p.coins": "def spend(purse): ...",
    "w.p.hiding": """
from w.p import rules

def run(rules):
    rules.hidden()
    {1}.add(2)
""",
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("w.p.steps.first", True),
        ("w.p.steps.second", False),
        ("w.p.rules.unwired", False),
        ("w.p.rules.judge", False),
        ("w.p.rules.hidden", False),
        ("w.p.rules.add", False),
        ("w.p.plugin.judge", True),
        ("w.p.plugin.other", False),
        ("w.p.coins.spend", True),
        ("w.p.values.Purse", True),
        ("w.p.values.Purse.__init__", True),
        ("w.p.values.Purse.remove", True),
        ("w.p.values.Purse.pop", False),
        ("w.p.values.Purse.total", True),
        ("w.p.values.Purse._count", True),
    ],
    ids=str,
)
def test_the_graph_tells_what_a_root_uses(name: str, expected: bool) -> None:
    found = CallGraph(PACKAGE).find_path(name, {"w.p.loop.run"}.__contains__, lambda _: True)
    assert bool(found) is expected, found
    assert not found or (found[0], found[-1]) == ("w.p.loop.run", name)


def test_the_graph_tells_what_a_module_outside_refers_to() -> None:
    source = """
from w.p import coins, rules
from w.p.values import Purse, spend
CHECKS = {"a": rules.judge}
def run(): return [spend(one) for one in [Purse()]][0].total
"""
    made = CallGraph(PACKAGE)
    found = set(made.find_direct(Module("t", source, made.modules)))
    assert found == {"w.p.rules.judge", "w.p.values.Purse", "w.p.coins.spend", "w.p.values.Purse.total"}
