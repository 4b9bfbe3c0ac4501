"""Bills of materials of an installation and of the image, as CycloneDX 1.6 has them. The same tree, the same bytes."""

import uuid
from collections.abc import Iterable

from cyclonedx.model import HashAlgorithm, HashType, Property, bom, component, license
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from tools import dependencies, licences
from tools.image import debian
from windlass import product

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, product.DISTRIBUTION)


def make() -> str:
    """Of what an installation may hold, extras included."""
    found = dependencies.find()
    program = _program()
    program.type, program.description = component.ComponentType.APPLICATION, dependencies.project()["description"]
    listed = {dependency.name: _describe(dependency) for dependency in found}
    bill = bom.Bom(components=listed.values(), metadata=bom.BomMetaData(component=program))
    asked = {*dependencies.asked()}.union(*(dependencies.asked(extra) for extra in dependencies.EXTRAS))
    bill.register_dependency(program, [listed[name] for name in asked])
    _register(bill, found, listed)
    return _to_text(bill)


def make_image(packages: Iterable[debian.Package]) -> str:
    """Of the image: Debian's packages with the hashes of their files, the wheels of its lock, and windlass."""
    found = [dependency for dependency in dependencies.find() if {dependencies.RUNTIME, "grpc"} & {*dependency.parts}]
    program, listed = _program(), {dependency.name: _describe(dependency) for dependency in found}
    debs = [_describe_package(package) for package in packages]
    image = component.Component(
        name=program.name, version=program.version, type=component.ComponentType.CONTAINER, bom_ref="image"
    )
    bill = bom.Bom(components=[program, *listed.values(), *debs], metadata=bom.BomMetaData(component=image))
    bill.register_dependency(image, [program, *debs])
    bill.register_dependency(
        program, [listed[name] for name in {*dependencies.asked(), *dependencies.asked("grpc")} & listed.keys()]
    )
    _register(bill, found, listed)
    return _to_text(bill)


def _register(bill: bom.Bom, found: Iterable[dependencies.Dependency], listed: dict[str, component.Component]) -> None:
    for dependency in found:
        needs = [listed[name] for name in {*dependency.needs} & listed.keys()]
        bill.register_dependency(listed[dependency.name], needs)


def _to_text(bill: bom.Bom) -> str:
    """The whole file. Its serial number follows from what it says: no time and no chance are in it."""
    bill.metadata.timestamp = None  # type: ignore[assignment]  # the schema lets it be absent
    bill.serial_number = uuid.UUID(int=0)
    bill.serial_number = uuid.uuid5(_NAMESPACE, _write(bill))
    return _write(bill) + "\n"


def _write(bill: bom.Bom) -> str:
    return make_outputter(bill, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2)


def _program() -> component.Component:
    project = dependencies.project()
    return _component(project["name"], project["version"], project["license"])


def _describe(dependency: dependencies.Dependency) -> component.Component:
    described = _component(dependency.name, dependency.version, licences.find(dependency.name))
    described.scope = component.ComponentScope.REQUIRED
    if dependency.is_optional:
        described.scope = component.ComponentScope.OPTIONAL
        described.properties.update(Property(name="windlass:extra", value=extra) for extra in dependency.parts)
    return described


def _describe_package(package: debian.Package) -> component.Component:
    """Its terms are in the image, in /usr/share/doc/NAME/copyright: they are several, without an expression."""
    qualifiers = {"arch": package.architecture, "distro": debian.SUITE}
    purl = PackageURL("deb", "debian", package.name, package.version, qualifiers)
    return component.Component(
        name=package.name,
        version=package.version,
        purl=purl,
        bom_ref=str(purl),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=package.sha256)],
    )


def _component(name: str, version: str, licence: str) -> component.Component:
    purl = PackageURL("pypi", None, name, version)
    terms = [license.LicenseExpression(licence)]
    return component.Component(name=name, version=version, purl=purl, bom_ref=str(purl), licenses=terms)
