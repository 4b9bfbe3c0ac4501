"""Selectors as the API spells them, read into `windlass.selectors`.

What kube-scheduler cannot parse is an `InvalidSelector`: the API server admits more than labels.NewRequirement parses
(`Gt` with a value that is no integer), and keeps what older releases admitted (values that are no label values).
"""

from collections.abc import Iterable
from typing import Self

from windlass import selectors
from windlass.kube import fields
from windlass.kube.models import core, meta

_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS = (*_LABEL_OPERATORS, "Gt", "Lt")


class InvalidSelector(fields.InvalidField):
    """A selector that kube-scheduler cannot parse. `faults` are its error messages."""

    def __init__(self, field: str, found: object, accepted: str, faults: tuple[str, ...]) -> None:
        super().__init__(field, found, accepted)
        self.faults = faults

    @property
    def message(self) -> str:
        """The message of kube-scheduler's error."""
        return selectors.join_errors(self.faults)

    def with_faults_of(self, others: list[Self]) -> "InvalidSelector":
        """A copy with the messages of other invalid parts appended."""
        faults = (*self.faults, *(fault for other in others for fault in other.faults))
        return InvalidSelector(self.field, self.found, self.accepted, faults)


def parse_label_selector(selector: meta.LabelSelector | None, at: str) -> selectors.LabelSelector | None:
    """Parse a label selector; None, which selects nothing, stays None. InvalidSelector for the first invalid part."""
    if selector is None:
        return None
    desired = []
    for key, value in sorted((selector.match_labels or {}).items()):
        if faults := selectors.validate_requirement(key, selectors.Operator.IN, (value,)):
            raise InvalidSelector(f"{at}.matchLabels", {key: value}, "a label", tuple(faults))
        desired.append(selectors.Requirement(key, selectors.Operator.IN, (value,)))
    for i, expression in enumerate(selector.match_expressions or ()):
        desired.append(_read_requirement(expression, _LABEL_OPERATORS, f"{at}.matchExpressions[{i}]"))
    return selectors.LabelSelector.of(desired) if desired else selectors.EVERYTHING


def parse_node_selector(selector: core.NodeSelector | None, at: str) -> selectors.NodeSelector | None:
    """Parse a node selector; None selects all nodes. InvalidSelector has the messages of all terms."""
    complaints: list[InvalidSelector] = []
    node_selector = _read_nodes(selector, at, complaints)
    if complaints:
        raise complaints[0].with_faults_of(complaints[1:])
    return node_selector


def parse_node_affinity(
    selector: core.NodeSelector | None, at: str, complaints: list[fields.InvalidField]
) -> selectors.NodeSelector | None:
    """Parse required node affinity as kube-scheduler does: an invalid term matches no node, and the others count."""
    invalid: list[InvalidSelector] = []
    node_selector = _read_nodes(selector, at, invalid)
    complaints += invalid
    return node_selector


def format_node_selector(selector: core.NodeSelector) -> str:
    """The selector as kube-scheduler's messages show it: the generated String of Go."""
    terms = "".join(
        f"NodeSelectorTerm{{MatchExpressions:{_format_requirements(term.match_expressions)},"
        f"MatchFields:{_format_requirements(term.match_fields)},}},"
        for term in selector.node_selector_terms or ()
    )
    return f"&NodeSelector{{NodeSelectorTerms:[]NodeSelectorTerm{{{terms}}},}}"


def _format_requirements(requirements: Iterable[meta.Requirement] | None) -> str:
    shown = "".join(
        f"NodeSelectorRequirement{{Key:{requirement.key or ''},Operator:{requirement.operator or ''},"
        f"Values:[{' '.join(requirement.values or ())}],}},"
        for requirement in requirements or ()
    )
    return f"[]NodeSelectorRequirement{{{shown}}}"


def _read_nodes(
    selector: core.NodeSelector | None, at: str, complaints: list[InvalidSelector]
) -> selectors.NodeSelector | None:
    if selector is None:
        return None
    terms = enumerate(selector.node_selector_terms or ())
    return selectors.NodeSelector(tuple(_read_term(term, at, i, complaints) for i, term in terms))


def _read_term(
    term: core.NodeSelectorTerm, at: str, number: int, complaints: list[InvalidSelector]
) -> selectors.NodeSelectorTerm:
    """Parse a term. If a part is invalid, the term is, and each invalid part is appended to `complaints`."""
    where = f"nodeSelectorTerms[{number}]"
    before = len(complaints)
    expressions, names = [], []
    for i, expression in enumerate(term.match_expressions or ()):
        within = f"{where}.matchExpressions[{i}]"
        try:
            expressions.append(_read_requirement(expression, _NODE_OPERATORS, f"{at}.{within}", within))
        except InvalidSelector as error:
            complaints.append(error)
    for i, field in enumerate(term.match_fields or ()):
        within = f"{where}.matchFields[{i}]"
        try:
            names.append(_read_field(field, f"{at}.{within}", within))
        except InvalidSelector as error:
            complaints.append(error)
    if len(complaints) > before:
        return selectors.NodeSelectorTerm(fields=_read_names(term), is_invalid=True)
    return selectors.NodeSelectorTerm(selectors.sort_requirements(expressions), selectors.sort_requirements(names))


def _read_names(term: core.NodeSelectorTerm) -> tuple[selectors.Requirement, ...]:
    """Node names of an invalid term."""
    named = (
        requirement
        for requirement in term.match_fields or ()
        if requirement.key == "metadata.name" and requirement.operator == "In"
    )
    return selectors.sort_requirements(
        selectors.Requirement("metadata.name", selectors.Operator.IN, tuple(sorted(set(expression.values or ()))))
        for expression in named
    )


def _read_field(field: meta.Requirement, at: str, within: str) -> selectors.Requirement:
    """A requirement on `metadata.name`, with In or NotIn and one value."""
    values = field.values or ()
    if field.key != "metadata.name":
        faults = (selectors.not_supported_error(f"{within}.key", field.key or "", ("metadata.name",)),)
        raise InvalidSelector(f"{at}.key", field.key, "metadata.name", faults)
    if field.operator not in ("In", "NotIn"):
        faults = (selectors.not_supported_error(f"{within}.operator", field.operator or "", ("In", "NotIn")),)
        raise InvalidSelector(f"{at}.operator", field.operator, "In or NotIn", faults)
    if len(values) != 1:
        faults = (selectors.invalid_error(f"{within}.values", field.values, "must have one element"),)
        raise InvalidSelector(f"{at}.values", field.values, "exactly one value", faults)
    return selectors.Requirement("metadata.name", selectors.Operator(field.operator), tuple(values))


def _read_requirement(
    model: meta.Requirement, operators: tuple[str, ...], at: str, within: str = ""
) -> selectors.Requirement:
    """`within` is the path in kube-scheduler's message; empty for label selectors."""
    if model.operator not in operators:
        fault = (
            selectors.not_supported_error(f"{within}.operator", model.operator or "", operators)
            if within
            else selectors.unknown_operator_error(model.operator or "")
        )
        raise InvalidSelector(f"{at}.operator", model.operator, fields.format_alternatives(operators), (fault,))
    operator, values = selectors.Operator(model.operator), model.values or []
    if faults := selectors.validate_requirement(model.key or "", operator, values, within):
        raise InvalidSelector(*_locate(model, operator, at), tuple(faults))
    return selectors.Requirement(model.key or "", operator, tuple(sorted(set(values))))


def _locate(model: meta.Requirement, operator: selectors.Operator, at: str) -> tuple[str, object, str]:
    """The invalid field of a requirement: path, value, accepted values."""
    if selectors.validate_requirement(model.key or "", selectors.Operator.EXISTS, ()):
        return f"{at}.key", model.key, "the key of a label"
    accepted = selectors.explain_invalid_values(operator, tuple(model.values or ())) or "values of labels"
    return f"{at}.values", model.values, accepted
