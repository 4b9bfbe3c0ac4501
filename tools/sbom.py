"""Bills of materials of an installation and of the image, as CycloneDX 1.6 has them. The same tree, the same bytes."""

import json
import urllib.parse
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from tools import dependencies, licences
from tools.image import debian
from windlass import product

_SPEC = "1.6"
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, product.DISTRIBUTION)


def make() -> str:
    """Of what an installation may hold, extras included."""
    root, found = _program(), dependencies.find()
    asked = {*dependencies.asked()}.union(*(dependencies.asked(extra) for extra in dependencies.EXTRAS))
    graph = {root["bom-ref"]: _refs(asked), **{_ref(one): _refs(one.needs) for one in found}}
    described = {**root, "type": "application", "description": dependencies.project()["description"]}
    return _spell(described, [_describe(one) for one in found], graph)


def make_image(packages: Iterable[debian.Package]) -> str:
    """Of the image: Debian's packages with the hashes of their files, the wheels of its lock, and windlass."""
    program, found = _program(), [one for one in dependencies.find() if {dependencies.RUNTIME, "grpc"} & {*one.parts}]
    debs = [_describe_package(package) for package in packages]
    image = {"type": "container", "bom-ref": "image", "name": product.DISTRIBUTION, "version": program["version"]}
    graph = {
        "image": {program["bom-ref"], *(deb["bom-ref"] for deb in debs)},
        program["bom-ref"]: _refs({*dependencies.asked(), *dependencies.asked("grpc")}),
        **{_ref(one): _refs(one.needs) for one in found},
        **{deb["bom-ref"]: set() for deb in debs},
    }
    return _spell(image, [program, *(_describe(one) for one in found), *debs], graph)


def _spell(root: Mapping[str, Any], components: list[dict[str, Any]], graph: Mapping[str, set[str]]) -> str:
    """The whole file. Its serial number follows from what it says: no time and no chance are in it."""
    bill: dict[str, Any] = {
        "$schema": f"http://cyclonedx.org/schema/bom-{_SPEC}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": _SPEC,
        "version": 1,
        "metadata": {"component": root},
        "components": components,
        "dependencies": [{"ref": ref, "dependsOn": sorted(needed)} for ref, needed in sorted(graph.items())],
    }
    bill["serialNumber"] = uuid.uuid5(_NAMESPACE, json.dumps(bill, sort_keys=True)).urn
    return json.dumps(bill, indent=2, sort_keys=True) + "\n"


def _program() -> dict[str, Any]:
    project = dependencies.project()
    return _component(project["name"], project["version"], project["license"])


def _ref(dependency: dependencies.Dependency) -> str:
    return _purl(dependency.name, dependency.version)


def _refs(names: Iterable[str]) -> set[str]:
    return {_ref(one) for one in dependencies.find() if one.name in {*names}}


def _describe_package(package: debian.Package) -> dict[str, Any]:
    """Its terms are in the image, in /usr/share/doc/NAME/copyright: they are several, without an expression."""
    version = urllib.parse.quote(package.version, safe="")
    purl = (
        f"pkg:deb/debian/{urllib.parse.quote(package.name)}@{version}?arch={package.architecture}&distro={debian.SUITE}"
    )
    return {
        "type": "library",
        "bom-ref": purl,
        "name": package.name,
        "version": package.version,
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": package.sha256}],
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
