import importlib.metadata

import pytest

from tools import dependencies, licences


def test_every_dependency_has_a_licence_that_will_do() -> None:
    found = {dependency.name: licences.find(dependency.name) for dependency in dependencies.find()}
    assert [f"{name}: {terms or 'none known'}" for name, terms in found.items() if not licences.is_allowed(terms)] == []


def test_licences_are_read_from_the_versions_that_are_pinned() -> None:
    installed = {dependency.name: importlib.metadata.version(dependency.name) for dependency in dependencies.find()}
    assert installed == {one.name: one.version for one in dependencies.find()}


def test_whatever_the_project_asks_for_is_found_with_all_that_it_needs() -> None:
    found = {dependency.name: dependency for dependency in dependencies.find()}
    for part, names in {
        "": ["aiohttp", "yarl"],
        "dask": ["distributed", "markupsafe"],
        "grpc": ["grpcio", "protobuf"],
    }.items():
        assert {*dependencies.asked(part)} <= found.keys()
        assert all(found[name].parts == (part or dependencies.RUNTIME,) for name in names)
    assert "pytest" not in found


@pytest.mark.parametrize(
    ("terms", "will_do"),
    [
        ("MIT", True),
        ("", False),
        ("GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("MIT AND GPL-3.0-only", False),
        ("(Apache-2.0 OR GPL-2.0-only) AND BSD-3-Clause", True),
        ("Apache-2.0 WITH LLVM-exception", False),
        ("MIT OR GPL-3.0-only AND Apache-2.0", True),
        ("GPL-3.0-only OR MIT AND GPL-2.0-only", False),
        ("(MIT AND GPL-3.0-only) OR ISC", True),
        ("MIT AND LicenseRef-unheard-of", False),
        ("MIT OR", False),
        ("BSD", False),
    ],
)
def test_all_terms_must_do_and_of_alternatives_one(terms: str, will_do: bool) -> None:
    assert licences.is_allowed(terms) is will_do


def test_whoever_asks_is_told_of_each_package_and_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert licences.main() == 0
    *item, all_of_them = capsys.readouterr().out.splitlines()
    assert len(item) == len(dependencies.find())
    assert all_of_them == f"{len(item)} packages: all terms will do"
