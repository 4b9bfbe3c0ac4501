"""The bill of materials: what an installation holds, as CycloneDX 1.6 has it. The same tree gives the same bytes."""

import json
import uuid
from typing import Any

from tools import dependencies, licences
from windlass import product

_SPEC = "1.6"
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, product.DISTRIBUTION)


def make() -> str:
    """The whole file. Its serial number follows from what it says: no time and no chance are in it."""
    bill = _bill()
    bill["serialNumber"] = uuid.uuid5(_NAMESPACE, json.dumps(bill, sort_keys=True)).urn
    return json.dumps(bill, indent=2, sort_keys=True) + "\n"


def _bill() -> dict[str, Any]:
    project, found = dependencies.project(), dependencies.find()
    root = _component(project["name"], project["version"], project["license"])
    asked = {*dependencies.asked()}.union(*(dependencies.asked(extra) for extra in dependencies.EXTRAS))
    refs = {dependency.name: _purl(dependency.name, dependency.version) for dependency in found}
    graph = {root["bom-ref"]: asked, **{refs[one.name]: {*one.needs} & refs.keys() for one in found}}
    return {
        "$schema": f"http://cyclonedx.org/schema/bom-{_SPEC}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": _SPEC,
        "version": 1,
        "metadata": {"component": {**root, "type": "application", "description": project["description"]}},
        "components": [_describe(one) for one in found],
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(refs[name] for name in names)} for ref, names in sorted(graph.items())
        ],
    }


def _describe(dependency: dependencies.Dependency) -> dict[str, Any]:
    component = _component(dependency.name, dependency.version, licences.find(dependency.name))
    component["scope"] = "optional" if dependency.is_optional else "required"
    if dependency.is_optional:
        component["properties"] = [{"name": "windlass:extra", "value": extra} for extra in dependency.parts]
    return component


def _component(name: str, version: str, licence: str) -> dict[str, Any]:
    purl = _purl(name, version)
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "licenses": [{"expression": licence}],
    }


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"
