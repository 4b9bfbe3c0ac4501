"""Questions: what filters ask to be counted of the pods on each node.

    matching   does a pod's profile (namespace and labels) match a selector, or terms of the pod that asks?
    carried    does a pod's own spec name this anti-affinity term, or this host port?

`tallies` keeps the answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from windlass import releases
from windlass.engine import facts, shapes
from windlass.selectors import EVERYTHING, LabelSelector


class NamespaceLabels(dict[str, Mapping[str, str]]):
    """The labels of each namespace that exists, by its name, and how a release selects among them."""

    def __init__(
        self, found: Mapping[str, Mapping[str, str]] | None = None, release: releases.Release = releases.DEFAULT
    ) -> None:
        super().__init__(found or {})
        self.release = release


@dataclass(frozen=True, slots=True)
class Selected:
    """Pods of one namespace that a selector matches and that are not terminating: what topology spread counts."""

    namespace: str
    selector: LabelSelector

    def matches(self, profile: shapes.Profile, namespaces: NamespaceLabels) -> bool:
        return (
            profile.namespace == self.namespace and not profile.terminating and self.selector.matches(profile.label_map)
        )


@dataclass(frozen=True, slots=True)
class MatchesAll:
    """Pods that match every one of an incoming pod's own terms; terminating pods count."""

    terms: tuple[facts.PodAffinityTerm, ...]

    def matches(self, profile: shapes.Profile, namespaces: NamespaceLabels) -> bool:
        return all(own_term_matches(term, profile, namespaces) for term in self.terms)


@dataclass(frozen=True, slots=True)
class Carries:
    """Pods that carry this anti-affinity term themselves, and so repel others from their domain."""

    term: facts.PodAffinityTerm


@dataclass(frozen=True, slots=True)
class Holds:
    """Pods that hold a host port on their node."""

    port: facts.HostPort


Matching: TypeAlias = Selected | MatchesAll
Carried: TypeAlias = Carries | Holds


def own_term_matches(term: facts.PodAffinityTerm, profile: shapes.Profile, namespaces: NamespaceLabels) -> bool:
    """Does a pod match a term of the incoming pod itself? See `Release.keeps_resolved_namespaces_only`."""
    return _is_namespace_of(term, profile, namespaces) and _selects(term, profile)


def _is_namespace_of(term: facts.PodAffinityTerm, profile: shapes.Profile, namespaces: NamespaceLabels) -> bool:
    if profile.namespace in term.namespaces:
        return True
    selector = term.namespace_selector
    if selector is None:
        return False
    if selector == EVERYTHING or (not namespaces.release.keeps_resolved_namespaces_only and selector.matches({})):
        return True
    labels = namespaces.get(profile.namespace)
    return labels is not None and selector.matches(labels)


def _selects(term: facts.PodAffinityTerm, profile: shapes.Profile) -> bool:
    return term.selector is not None and term.selector.matches(profile.label_map)


def carried_term_matches(term: facts.PodAffinityTerm, profile: shapes.Profile, namespaces: NamespaceLabels) -> bool:
    """Does an incoming pod match a term that a running pod carries?"""
    if profile.namespace not in term.namespaces:  # asked first, because few pods are of the right one
        selector = term.namespace_selector
        if selector is None or not selector.matches(namespaces.get(profile.namespace, {})):
            return False
    return _selects(term, profile)


def carried_by(shape: shapes.Shape) -> list[Carried]:
    """The tallies that a pod of this shape adds to by its own spec; one it names twice is listed twice."""
    spec = shape.spec
    found: list[Carried] = [Carries(term) for term in spec.anti_affinity]
    found += [Holds(port) for port in spec.host_ports]
    return found


def spread_tally(namespace: str, selector: LabelSelector | None) -> Selected | None:
    """What a spread constraint counts. An empty selector counts no existing pod, though the pod matches itself."""
    if selector is None or selector == EVERYTHING:
        return None
    return Selected(namespace, selector)
