"""API types and the Cluster API provider contract: which CRD, contract version and fields a provider's kind has.

    v1beta1   bootstrap `status.ready`, infrastructure `status.ready`
    v1beta2   bootstrap `status.initialization.dataSecretCreated`, infrastructure `status.ready`, or else
              `status.initialization.provisioned`

Structs decode only the needed fields. A field of the wrong type counts as absent: one malformed provider object must
not block the others. `pluralize` gives plurals as Cluster API derives CRD names from kinds.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.controllers.machine_pool import model
from windlass.kube.models import meta
from windlass.kube.models.meta import Model, Object
from windlass.kube.resources import CLUSTERS, MACHINE_POOLS, MACHINES, NODES, SECRETS, Resource


class NodeSpec(Model, frozen=True):
    """The fields of NodeSpec that are needed here."""

    provider_id: str | None = msgspec.field(default=None, name="providerID")
    taints: list[dict[str, Any]] | None = None


class NodeInfo(Model, frozen=True):
    """NodeSystemInfo: the kubelet version."""

    kubelet_version: str | None = None


class NodeStatus(Model, frozen=True):
    """NodeStatus: conditions and node info."""

    conditions: list[meta.Condition] | None = None
    node_info: NodeInfo | None = None


class Node(Object, frozen=True):
    """A Node of a workload cluster."""

    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class InfraMachineSpec(Model, frozen=True):
    """Spec of an infrastructure machine."""

    provider_id: str | None = msgspec.field(default=None, name="providerID")


class InfraMachine(Object, frozen=True):
    """A machine of an infrastructure pool, such as an AWSMachine."""

    spec: InfraMachineSpec | None = None


class CustomResourceDefinitionNames(Model, frozen=True):
    """Names of a CustomResourceDefinition."""

    kind: str = ""
    plural: str = ""


class CustomResourceDefinitionSpec(Model, frozen=True):
    """Group and names of a CustomResourceDefinition."""

    group: str = ""
    names: CustomResourceDefinitionNames = CustomResourceDefinitionNames()
    scope: str = ""


class CustomResourceDefinition(Object, frozen=True):
    """A CustomResourceDefinition. Its labels name the supported contract versions."""

    spec: CustomResourceDefinitionSpec = CustomResourceDefinitionSpec()


class PartialObjectMetadata(Object, frozen=True):
    """An object of which only the metadata is decoded."""


WORKLOAD_NODES = NODES.read_as(Node)

SECRETS_METADATA = SECRETS.read_as(PartialObjectMetadata)

CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", False, CustomResourceDefinition
)


def machine_pool_resource(version: str) -> Resource[dict[str, Any]]:
    return MACHINE_POOLS.at(f"{model.GROUP}/{version}").untyped()


def machine_resource(version: str) -> Resource[dict[str, Any]]:
    return MACHINES.at(f"{model.GROUP}/{version}").untyped()


def cluster_resource(version: str) -> Resource[dict[str, Any]]:
    return CLUSTERS.at(f"{model.GROUP}/{version}").untyped()


CONTRACT_VERSIONS = ("v1beta2", "v1beta1")
"""Supported contract versions, preferred first."""

_API_VERSION_PATTERN = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?", re.ASCII)

_STAGE_ORDER = {"alpha": 0, "beta": 1, None: 2}

Json = Mapping[str, Any]


def crd_name(group: str, kind: str) -> str:
    """The name of the CustomResourceDefinition of a kind, as the contract requires it."""
    return f"{pluralize(kind.lower())}.{group}"


def choose_contract_version(labels: Mapping[str, str]) -> tuple[str, str] | None:
    """(contract version, API version) from the labels of a CustomResourceDefinition; None if none matches."""
    for contract in CONTRACT_VERSIONS:
        versions = [version for version in labels.get(f"{model.GROUP}/{contract}", "").split("_") if version]
        if versions:
            return contract, max(versions, key=_version_precedence)
    return None


def _version_precedence(version: str) -> tuple[int, int, int, str]:
    """Sort key of Kubernetes API versions: v2, v1, v1beta2, v1beta1, v1alpha1, then others by name."""
    match = _API_VERSION_PATTERN.fullmatch(version)
    if match is None:
        return -1, 0, 0, version
    return _STAGE_ORDER[match[2]], int(match[1]), int(match[3] or 0), version


def is_data_secret_created(status: Json, contract: str) -> bool:
    if contract == "v1beta1":
        return status.get("ready") is True
    return _initialization(status).get("dataSecretCreated") is True


def is_provisioned(status: Json, contract: str) -> bool:
    ready = status.get("ready")
    if ready is None and contract != "v1beta1":
        ready = _initialization(status).get("provisioned")
    return ready is True


def read_data_secret_name(status: Json) -> str | None:
    return _string_or_none(status.get("dataSecretName"))


def read_provider_ids(spec: Json) -> tuple[str, ...]:
    found = spec.get("providerIDList")
    return tuple(item for item in found if isinstance(item, str)) if isinstance(found, list) else ()


def read_replicas(status: Json) -> int | None:
    found = status.get("replicas")
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def read_machine_kind(status: Json) -> str:
    """The kind of an infrastructure pool's machines; empty if it publishes none."""
    return _string_or_none(status.get("infrastructureMachineKind")) or ""


def read_failure(status: Json) -> tuple[str, str]:
    """(reason, message) of a terminal failure; both empty if there is none."""
    return _string_or_none(status.get("failureReason")) or "", _string_or_none(status.get("failureMessage")) or ""


def find_ready_condition(status: Json) -> Json | None:
    """The Ready condition in v1beta1 or v1beta2 form."""
    found = status.get("conditions")
    for condition in found if isinstance(found, list) else ():
        if isinstance(condition, dict) and condition.get("type") == model.READY:
            return condition
    return None


def _initialization(status: Json) -> Json:
    found = status.get("initialization")
    return found if isinstance(found, dict) else {}


def _string_or_none(found: object) -> str | None:
    return found if isinstance(found, str) else None


_WORDS = """
    aircraft=aircraft beef=beef bison=bison blues=blues chassis=chassis deer=deer fish=fish moose=moose
    police=police salmon=salmon series=series sheep=sheep shrimp=shrimp species=species swine=swine
    trout=trout tuna=tuna you=you child=children foot=feet goose=geese man=men human=humans mouse=mice
    tooth=teeth woman=women person=people adieu=adieux fabliau=fabliaux bureau=bureaus criterion=criteria
    ganglion=ganglia lexicon=lexica mitochondrion=mitochondria noumenon=noumena phenomenon=phenomena
    taxon=taxa media=media medium=media stadium=stadiums aquarium=aquaria auditorium=auditoria
    symposium=symposia curriculum=curriculums quota=quotas alumnus=alumni bacillus=bacilli cactus=cacti
    coccus=cocci focus=foci locus=loci nucleus=nuclei octopus=octupuses radius=radii syllabus=syllabi
    corpus=corpora genus=genera alumna=alumnae vertebra=vertebrae differentia=differentiae minutia=minutiae
    vita=vitae larva=larvae postcava=postcavae praecava=praecavae uva=uvae apex=apices codex=codices
    index=indices latex=latices vertex=vertices vortex=vortices appendix=appendices radix=radices
    helix=helices crisis=crises ellipsis=ellipses genesis=geneses oasis=oases thesis=theses testis=testes
    base=bases basis=bases vedalia=vedalias abuse=abuses cause=causes clause=clauses cruse=cruses
    excuse=excuses fuse=fuses house=houses misuse=misuses muse=muses pause=pauses ache=aches topaz=topazes
    buffalo=buffaloes potato=potatoes tomato=tomatoes equipment=equipment information=information jeans=jeans
    money=money news=news rice=rice dwarf=dwarfs hoof=hoofs thief=thieves chive=chives hive=hives move=moves
    movie=movies cookie=cookies pretorium=pretoriums agenda=agendas formula=formulas shoe=shoes
    graffiti=graffiti
"""
"""Irregular whole words, also matched as suffixes; the last match counts."""

_WHOLE_WORDS = """
    ox=oxen louse=lice die=dice axis=axes alias=aliases use=uses toe=toes
"""

_OTHER_PLURALS = """
    beefs fishes salmons shrimps swines trouts tunas adieus bureaux ganglions lexicons mitochondrions
    stadia aquariums auditoriums symposiums curricula alumnuses cactuses focuses locuses nucleuses octopi
    radiuses corpuses apexes codexes indexes latexes vertexes vortexes appendixes radixes helixes buffalos
    dwarves hooves formulae
"""
"""Plurals besides those of the words above."""

_ENDINGS = """
    tive=tives eaf=eaves oaf=oaves afe=aves arf=arves rfe=rves rf=rves lf=lves fe=ves ay=ays ey=eys oy=oys
    quy=quies uy=uys y=ies eau=eaux bula=bulae dula=bulae lula=bulae nula=bulae vula=bulae hedron=hedra ium=ia
    seum=seums eum=ea oum=oa stracum=straca dum=da elum=ela ilum=ila olum=ola ulum=ula llum=lla ylum=yla
    imum=ima ernum=erna gnum=gna brum=bra crum=cra terum=tera serum=sera trum=tra antum=anta atum=ata
    entum=enta etum=eta itum=ita otum=ota utum=uta ctum=cta ovum=ova trix=trices iasis=iases mesis=meses
    kinesis=kineses resis=reses gnosis=gnoses opsis=opses ysis=yses ouse=ouses lause=lauses us=uses ch=ches
    io=ios sh=shes ss=sses ez=ezzes iz=izzes tz=tzes zz=zzes ano=anos lo=los to=tos oo=oos o=oes x=xes
"""
"""Irregular suffixes; the first match counts."""


def _parse_table(table: str) -> list[tuple[str, str]]:
    pairs = (entry.partition("=") for entry in table.split())
    return [(singular, plural) for singular, _, plural in pairs]


_BY_SINGULAR = dict(_parse_table(_WORDS) + _parse_table(_WHOLE_WORDS))

_ONE_WAY = ("blues", "medium", "ellipsis", "basis")
"""Words whose plural can be the singular of another word."""

_PLURALS = {plural for singular, plural in _BY_SINGULAR.items() if singular not in _ONE_WAY}.union(
    _OTHER_PLURALS.split()
)

_BY_ENDING = [*reversed(_parse_table(_WORDS)), *_parse_table(_ENDINGS)]


def pluralize(word: str) -> str:
    """The plural of a lower-case word; a word that looks like a plural is returned unchanged."""
    if word in _BY_SINGULAR:
        return _BY_SINGULAR[word]
    if word in _PLURALS:
        return word
    for singular, plural in _BY_ENDING:
        if word.endswith(plural):
            return word
        if word.endswith(singular):
            return word.removesuffix(singular) + plural
    return word if word.endswith("s") else f"{word}s"
