"""Nothing in the package is there for tests alone, and no setting is accepted that nothing reads."""

import dataclasses
import types
from collections.abc import Mapping

import pytest

from tools import dead_code, source_analysis
from windlass.autoscaler.options import process_options
from windlass.engine.model import deviations, settings

SETTINGS = tuple(
    (module.__name__, name)
    for module in (settings, deviations, process_options)
    for name, kind in vars(module).items()
    if dataclasses.is_dataclass(kind) and isinstance(kind, type) and kind.__module__ == module.__name__
)

UNREAD: Mapping[str, str] = {}
"""Settings that nothing reads, and why they are there."""

BY_LIBRARIES = "a library calls it by this name"
BY_SERVERS = "the rule of a CRD that a server applies"
BY_QUEUE = "the order in which the reference scheduler takes pods from its queue"
BY_FILTERS = "all filters of the reference scheduler, with which those of the engine are compared"
OF_THE_API = "part of what the module offers: one of a kind, like those beside it"
UNUSED: Mapping[str, str] = {
    "windlass.cli.completion.kubectl_complete": "a program that kubectl runs, by its name in pyproject.toml",
    "windlass.cli.terminal_output._ClosedOutput.writable": BY_LIBRARIES,
    "windlass.kube.yaml_documents._KubernetesLoader.construct_document": BY_LIBRARIES,
    "windlass.kube.yaml_documents._StrictLoader.construct_mapping": BY_LIBRARIES,
    "windlass.apiserver.registry.ADMISSION": "the names that `Settings.disabled_admission` accepts",
    "windlass.clock.VirtualClock.set_wall": "steps of the wall clock, for whoever simulates them",
    "windlass.kube.resources.DECODED_PODS": OF_THE_API,
    "windlass.kube.rbac.list_permissions": OF_THE_API,
    "windlass.kube.resources.RESOURCE_CLAIM_TEMPLATES": OF_THE_API,
    "windlass.kube.unstructured.parse_apply_conflicts": OF_THE_API,
    "windlass.kube.unstructured.remove_condition": OF_THE_API,
    "windlass.controllers.openshift.machineset_sync.authority_migration.default_spec": BY_SERVERS,
    "windlass.controllers.openshift.machineset_sync.authority_migration.validate_spec": BY_SERVERS,
    "windlass.simulator.reference_scheduler.cluster_view.list_queued": BY_QUEUE,
    "windlass.simulator.reference_scheduler.scheduling_cycle.run_filters": BY_FILTERS,
}
"""What nothing in the package mentions, and why it is there."""

UNIMPORTED: Mapping[str, str] = {}
"""Modules that no other imports, and why they are there."""


@pytest.mark.parametrize(("module", "kind"), SETTINGS)
def test_every_field_of_the_settings_is_read(module: str, kind: str) -> None:
    assert [field for field in dead_code.find_unread(module, kind) if f"{kind}.{field}" not in UNREAD] == []


def test_nothing_is_defined_that_the_package_does_not_use() -> None:
    found = {str(definition) for definition in dead_code.find()}
    assert sorted(found - UNUSED.keys()) == []
    assert sorted(UNUSED.keys() - found) == [], "used by now: take it off the list"


def test_no_module_is_there_that_no_other_imports() -> None:
    found = set(dead_code.find_unimported())
    assert sorted(found - UNIMPORTED.keys()) == []
    assert sorted(UNIMPORTED.keys() - found) == [], "imported by now: take it off the list"


def test_a_definition_that_only_mentions_itself_is_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def alone():\n    alone()\n\ndef used(): ...\n\nused()\n\nclass Sort:\n    def forgotten(self): ...\n"
    modules = types.MappingProxyType({"windlass.m": source_analysis.Module("windlass.m", text)})
    monkeypatch.setattr(source_analysis, "modules", lambda: modules)
    assert [str(definition) for definition in dead_code.find()] == [
        "windlass.m.alone",
        "windlass.m.Sort",
        "windlass.m.Sort.forgotten",
    ]


def test_an_annotation_in_quotes_is_a_use(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "Alone = int\nUsed = int\nOther = int\nvalue: 'list[Used]' = []\ndef act(one: 'list[Other]'): ...\nact(value)\n"
    )
    modules = types.MappingProxyType({"windlass.m": source_analysis.Module("windlass.m", text)})
    monkeypatch.setattr(source_analysis, "modules", lambda: modules)
    assert [str(definition) for definition in dead_code.find()] == ["windlass.m.Alone"]


def test_a_field_that_is_set_and_not_read_is_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = "class Settings:\n    dead: int = 0\n    alive: int = 0\n"
    reader = "def read(given):\n    given.dead = 1\n    return given.alive\n"
    texts = {"windlass.settings": fields, "windlass.reader": reader}
    modules = {name: source_analysis.Module(name, text) for name, text in texts.items()}
    monkeypatch.setattr(source_analysis, "modules", lambda: modules)
    assert list(dead_code.find_unread("windlass.settings", "Settings")) == ["dead"]
