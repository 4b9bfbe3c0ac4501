"""Questions: what somebody wants to know of one moment, and the answer, whoever asks and wherever it is from."""

import difflib
import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from windlass.engine import quarantine
from windlass.explain import cluster, document, groups, look, nodes, pods, unevaluated
from windlass.explain.telling import cluster as tell_cluster
from windlass.explain.telling import groups as tell_groups
from windlass.explain.telling import nodes as tell_nodes
from windlass.explain.telling import pods as tell_pods
from windlass.explain.telling.words import PLAIN, Tones

_NEAR = 3
"""Names that are suggested, at most."""


class About(enum.StrEnum):
    """What can be asked about."""

    POD = "pod"
    NODE = "node"
    GROUP = "group"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Question:
    """One object, or the whole cluster."""

    about: About
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.about} {f'{self.namespace}/' if self.namespace else ''}{self.name}"


@dataclass(frozen=True, slots=True)
class Unknown:
    """There is no such object; names that are like it."""

    question: Question
    near: tuple[str, ...] = ()
    why: str = ""
    """Set: it exists and is left alone, for this reason."""

    def __str__(self) -> str:
        if self.why:
            return f"{self.question} is left alone: {self.why}"
        hint = f"; there is {', '.join(self.near)}" if self.near else ""
        return f"there is no {self.question}{hint}"


def answer(question: Question, at: look.Look) -> document.Account | Unknown:
    """What is to be told. Whatever is raised meanwhile, the snapshot is left as it was found."""
    with quarantine.hidden(at.seen):
        return _answer(question, at)


def _answer(question: Question, at: look.Look) -> document.Account | Unknown:
    match question.about:
        case About.POD:
            row = at.find_pod(question.namespace, question.name)
            return _unknown(question, _pod_names(at)) if row is None else pods.describe(at, row)
        case About.NODE:
            names = [node.name for node in at.seen.nodes]
            return nodes.describe(at, question.name) if question.name in names else _unknown(question, names)
        case About.GROUP:
            ids = [group.id for group in at.seen.groups]
            fault = unevaluated.find_group(at, question.name)
            if fault is not None:
                return groups.describe_unevaluated(at, fault)
            found = _find_group(question.name, ids)
            held = {group.id: group.why for group in at.seen.held}
            if found is None and (left_alone := _find_group(question.name, list(held))) is not None:
                return Unknown(replace(question, name=left_alone), why=held[left_alone])
            return _unknown(question, ids) if found is None else groups.describe(at, found)
    return cluster.describe(at)


def tell(account: document.Account, tones: Tones = PLAIN) -> Iterator[str]:
    """The answer as text."""
    match account:
        case pods.PodAccount():
            return tell_pods.tell(account, tones)
        case nodes.NodeAccount():
            return tell_nodes.tell(account, tones)
        case groups.GroupAccount():
            return tell_groups.tell(account, tones)
    return tell_cluster.tell(account, tones)


def _find_group(name: str, ids: list[str]) -> str | None:
    """By its id, or by the end of it where only one ends so: `workers` for `MachineDeployment/default/workers`."""
    if name in ids:
        return name
    ending = [id for id in ids if id.endswith(f"/{name}")]
    return ending[0] if len(ending) == 1 else None


def _pod_names(at: look.Look) -> Iterator[str]:
    table = at.snapshot.pods
    return (table.key(row) for row in table.rows.values())


def _unknown(question: Question, names: Iterable[str]) -> Unknown:
    """The same name elsewhere, else names that begin so (those of a controller's pods), else those that look alike."""
    every, wanted = list(names), question.name
    last = {name: name.rsplit("/", 1)[-1] for name in every}
    same = [name for name in every if last[name] == wanted]
    begun = [name for name in every if last[name].startswith(wanted)]
    asked = f"{question.namespace}/{wanted}" if question.namespace else wanted
    return Unknown(question, tuple((same or begun or difflib.get_close_matches(asked, every, _NEAR))[:_NEAR]))
