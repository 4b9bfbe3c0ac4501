"""Nothing in the package is there for tests alone, and no setting is accepted that nothing reads."""

import dataclasses
import types
from collections.abc import Mapping

import pytest

from handbook import source, unused
from windlass.autoscaler.options import process_options
from windlass.engine.model import deviations, settings

SETTINGS = tuple(
    (module.__name__, name)
    for module in (settings, deviations, process_options)
    for name, kind in vars(module).items()
    if dataclasses.is_dataclass(kind) and isinstance(kind, type) and kind.__module__ == module.__name__
)

NOT_YET = "nothing reads it yet"
UNREAD: Mapping[str, str] = {}
"""Settings that nothing reads, and why they are there."""

BY_LIBRARIES = "a library calls it by this name"
OF_THE_API = "part of what the module offers: one of a kind, like those beside it"
UNUSED: Mapping[str, str] = {
    "windlass.cli.terminal_output._ClosedOutput.writable": BY_LIBRARIES,
    "windlass.kube.yaml_documents._KubernetesLoader.construct_document": BY_LIBRARIES,
    "windlass.kube.yaml_documents._StrictLoader.construct_mapping": BY_LIBRARIES,
    "windlass.apiserver.registry.ADMISSION": "the names that `Settings.disabled_admission` accepts",
    "windlass.clock.VirtualClock.set_wall": "steps of the wall clock, for whoever simulates them",
    "windlass.kube.client.Client.json_patch": OF_THE_API,
    "windlass.kube.resources.DECODED_PODS": OF_THE_API,
    "windlass.kube.resources.RESOURCE_CLAIM_TEMPLATES": OF_THE_API,
    "windlass.controllers.openshift.machineset_sync.authority_migration.validate_spec": "the rule of a CRD that a server applies",
    "windlass.simulator.reference_scheduler.cluster_view.list_queued": "the order in which the plain scheduler would take pods up",
    "windlass.engine.scale_down.returning.find_returning": NOT_YET,
}
"""What nothing in the package mentions, and why it is there."""

UNIMPORTED: Mapping[str, str] = {
    "windlass.providers.fake_provider": "the example of a provider, which tests of the loop run on",
    "windlass.engine.nominated": NOT_YET,
    "windlass.engine.scale_down.returning": NOT_YET,
}
"""Modules that no other imports, and why they are there."""


def _list_settled(listed: Mapping[str, str]) -> set[str]:
    return {name for name, why in listed.items() if why != NOT_YET}


@pytest.mark.parametrize(("module", "kind"), SETTINGS)
def test_every_field_of_the_settings_is_read(module: str, kind: str) -> None:
    assert [field for field in unused.find_unread(module, kind) if f"{kind}.{field}" not in UNREAD] == []


def test_nothing_is_defined_that_the_package_does_not_use() -> None:
    found = {str(one) for one in unused.find()}
    assert sorted(found - UNUSED.keys()) == []
    assert sorted(_list_settled(UNUSED) - found) == [], "used by now: take it off the list"


def test_no_module_is_there_that_no_other_imports() -> None:
    found = set(unused.find_unimported())
    assert sorted(found - UNIMPORTED.keys()) == []
    assert sorted(_list_settled(UNIMPORTED) - found) == [], "imported by now: take it off the list"


def test_a_definition_that_only_mentions_itself_is_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def alone():\n    alone()\n\ndef used(): ...\n\nused()\n\nclass Sort:\n    def forgotten(self): ...\n"
    modules = types.MappingProxyType({"windlass.m": source.Module("windlass.m", text)})
    monkeypatch.setattr(source, "modules", lambda: modules)
    assert [str(one) for one in unused.find()] == ["windlass.m.alone", "windlass.m.Sort", "windlass.m.Sort.forgotten"]


def test_a_field_that_is_set_and_not_read_is_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = "class Settings:\n    dead: int = 0\n    alive: int = 0\n"
    reader = "def read(given):\n    given.dead = 1\n    return given.alive\n"
    texts = {"windlass.settings": fields, "windlass.reader": reader}
    modules = {name: source.Module(name, text) for name, text in texts.items()}
    monkeypatch.setattr(source, "modules", lambda: modules)
    assert list(unused.find_unread("windlass.settings", "Settings")) == ["dead"]
