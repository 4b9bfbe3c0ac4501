import json
import re
from typing import Any

import pytest

from tools import dependencies, sbom


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(sbom.make())
    return found


def test_the_same_tree_gives_the_same_bytes() -> None:
    dependencies.find.cache_clear()
    first = sbom.make()
    dependencies.find.cache_clear()
    assert sbom.make() == first


def test_the_bill_says_what_it_is(bill: dict[str, Any]) -> None:
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bill["serialNumber"])
    assert bill["metadata"]["component"]["purl"] == f"pkg:pypi/windlass-autoscaler@{dependencies.project()['version']}"


def test_every_dependency_is_listed_with_version_licence_and_scope(bill: dict[str, Any]) -> None:
    listed = {item["name"]: item for item in bill["components"]}
    assert [*listed] == [dependency.name for dependency in dependencies.find()]
    for one in dependencies.find():
        component = listed[one.name]
        assert component["purl"] == component["bom-ref"] == f"pkg:pypi/{one.name}@{one.version}"
        assert component["scope"] == ("optional" if one.is_optional else "required")
        assert component["licenses"][0]["expression"]
    assert listed["numpy"]["scope"] == "required"
    assert listed["grpcio"]["properties"] == [{"name": "windlass:extra", "value": "grpc"}]


def test_who_needs_whom_leads_from_the_project_to_every_component(bill: dict[str, Any]) -> None:
    needs = {item["ref"]: item.get("dependsOn", []) for item in bill["dependencies"]}
    refs = {entry["bom-ref"] for entry in bill["components"]}
    root = bill["metadata"]["component"]["bom-ref"]
    assert needs.keys() == refs | {root}
    assert dependencies.reach([root], needs) == refs | {root}
