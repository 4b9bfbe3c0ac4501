"""The bill of materials: what an installation holds, as CycloneDX 1.6 has it. The same tree gives the same bytes."""

import uuid

from cyclonedx.model import Property, bom, component, license
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from tools import dependencies, licences
from windlass import product

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, product.DISTRIBUTION)


def make() -> str:
    """The whole file. Its serial number follows from what it says: no time and no chance are in it."""
    bill = _bill()
    bill.metadata.timestamp = None  # type: ignore[assignment]  # the schema lets it be absent
    bill.serial_number = uuid.UUID(int=0)
    bill.serial_number = uuid.uuid5(_NAMESPACE, _write(bill))
    return _write(bill) + "\n"


def _write(bill: bom.Bom) -> str:
    return make_outputter(bill, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2)


def _bill() -> bom.Bom:
    project, found = dependencies.project(), dependencies.find()
    root = _component(project["name"], project["version"], project["license"])
    root.type, root.description = component.ComponentType.APPLICATION, project["description"]
    listed = {dependency.name: _describe(dependency) for dependency in found}
    asked = {*dependencies.asked()}.union(*(dependencies.asked(extra) for extra in dependencies.EXTRAS))
    bill = bom.Bom(components=listed.values(), metadata=bom.BomMetaData(component=root))
    bill.register_dependency(root, [listed[name] for name in asked])
    for one in found:
        bill.register_dependency(listed[one.name], [listed[name] for name in {*one.needs} & listed.keys()])
    return bill


def _describe(dependency: dependencies.Dependency) -> component.Component:
    described = _component(dependency.name, dependency.version, licences.find(dependency.name))
    described.scope = component.ComponentScope.REQUIRED
    if dependency.is_optional:
        described.scope = component.ComponentScope.OPTIONAL
        described.properties.update(Property(name="windlass:extra", value=extra) for extra in dependency.parts)
    return described


def _component(name: str, version: str, licence: str) -> component.Component:
    purl = PackageURL("pypi", None, name, version)
    terms = [license.LicenseExpression(licence)]
    return component.Component(name=name, version=version, purl=purl, bom_ref=str(purl), licenses=terms)
