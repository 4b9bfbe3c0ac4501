"""Explain queries: one object or the whole cluster, its explanation, as text or JSON.

In JSON, times are seconds since the epoch, amounts in each resource's unit: millicores, bytes, pieces.
"""

import difflib
import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from windlass.engine import quarantine
from windlass.errors import InvalidInput
from windlass.explain import cluster, explain_context, groups, nodes, pods, render_cluster, render_pods
from windlass.explain.cluster import ClusterExplanation
from windlass.explain.groups import GroupExplanation
from windlass.explain.nodes import NodeExplanation
from windlass.explain.pods import PodExplanation
from windlass.formatting import PLAIN_STYLE, TextStyle

Explanation = PodExplanation | NodeExplanation | GroupExplanation | ClusterExplanation

T = TypeVar("T", PodExplanation, NodeExplanation, GroupExplanation, ClusterExplanation)


def encode_explanation(account: Explanation, *, indented: bool = False) -> bytes:
    """JSON; indented for people."""
    encoded = msgspec.json.encode(account)
    return msgspec.json.format(encoded, indent=2) if indented else encoded


def decode_explanation(kind: type[T], text: bytes) -> T:
    """An account from its JSON. InvalidInput if it is none, as from a server of another version."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"what was answered is no {kind.__name__}: {error}") from error


_MAX_SUGGESTIONS = 3
"""Names that are suggested, at most."""


class SubjectKind(enum.StrEnum):
    """What can be asked about."""

    POD = "pod"
    NODE = "node"
    GROUP = "group"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class ExplainQuery:
    """One object, or the whole cluster."""

    about: SubjectKind
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.about} {f'{self.namespace}/' if self.namespace else ''}{self.name}"


@dataclass(frozen=True, slots=True)
class ObjectNotFound:
    """There is no such object; names that are like it."""

    question: ExplainQuery
    near: tuple[str, ...] = ()
    why: str = ""
    """Set: it exists and is left alone, for this reason."""

    def __str__(self) -> str:
        if self.why:
            return f"{self.question} is left alone: {self.why}"
        hint = f"; there is {', '.join(self.near)}" if self.near else ""
        return f"there is no {self.question}{hint}"


def answer_query(question: ExplainQuery, at: explain_context.ExplainContext) -> Explanation | ObjectNotFound:
    """The explanation. The snapshot is restored, also if an error is raised."""
    with quarantine.hide_excluded_pods(at.observation):
        return _answer_query(question, at)


def _answer_query(question: ExplainQuery, at: explain_context.ExplainContext) -> Explanation | ObjectNotFound:
    match question.about:
        case SubjectKind.POD:
            row = at.find_pod(question.namespace, question.name)
            return _not_found(question, _pod_names(at)) if row is None else pods.explain_pod(at, row)
        case SubjectKind.NODE:
            names = [node.name for node in at.observation.nodes]
            return nodes.explain_node(at, question.name) if question.name in names else _not_found(question, names)
        case SubjectKind.GROUP:
            ids = [group.id for group in at.observation.groups]
            fault = explain_context.find_faulty_group(at, question.name)
            if fault is not None:
                return groups.explain_unevaluated_group(at, fault)
            group_id = _find_group(question.name, ids)
            held = {group.id: group.why for group in at.observation.held}
            if group_id is None and (left_alone := _find_group(question.name, list(held))) is not None:
                return ObjectNotFound(replace(question, name=left_alone), why=held[left_alone])
            return _not_found(question, ids) if group_id is None else groups.explain_group(at, group_id)
    return cluster.explain_cluster(at)


def render_explanation(account: Explanation, tones: TextStyle = PLAIN_STYLE) -> Iterator[str]:
    """The answer as text."""
    match account:
        case pods.PodExplanation():
            return render_pods.render_pod(account, tones)
        case nodes.NodeExplanation():
            return render_cluster.render_node(account, tones)
        case groups.GroupExplanation():
            return render_cluster.render_group(account, tones)
    return render_cluster.render_cluster_explanation(account, tones)


def _find_group(name: str, ids: list[str]) -> str | None:
    """By its id, or by the end of it where only one ends so: `workers` for `MachineDeployment/default/workers`."""
    if name in ids:
        return name
    ending = [id for id in ids if id.endswith(f"/{name}")]
    return ending[0] if len(ending) == 1 else None


def _pod_names(at: explain_context.ExplainContext) -> Iterator[str]:
    table = at.snapshot.pods
    return (table.key(row) for row in table.rows.values())


def _not_found(question: ExplainQuery, names: Iterable[str]) -> ObjectNotFound:
    """The same name elsewhere, else names that begin so (those of a controller's pods), else those that look alike."""
    every, desired = list(names), question.name
    last = {name: name.rsplit("/", 1)[-1] for name in every}
    same = [name for name in every if last[name] == desired]
    begun = [name for name in every if last[name].startswith(desired)]
    asked = f"{question.namespace}/{desired}" if question.namespace else desired
    return ObjectNotFound(
        question, tuple((same or begun or difflib.get_close_matches(asked, every, _MAX_SUGGESTIONS))[:_MAX_SUGGESTIONS])
    )
