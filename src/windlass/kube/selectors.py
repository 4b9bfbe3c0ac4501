"""Selectors as the API spells them, read into `windlass.selectors`."""

from windlass import selectors
from windlass.kube import fields
from windlass.kube.models import core, meta

_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS = (*_LABEL_OPERATORS, "Gt", "Lt")


def read_labels(selector: meta.LabelSelector | None, at: str) -> selectors.LabelSelector | None:
    """A label selector; None, which selects nothing, stays None."""
    if selector is None:
        return None
    wanted = [
        selectors.Requirement(key, selectors.Operator.IN, (value,))
        for key, value in (selector.match_labels or {}).items()
    ]
    for i, expression in enumerate(selector.match_expressions or ()):
        wanted.append(_read_requirement(expression, _LABEL_OPERATORS, f"{at}.matchExpressions[{i}]"))
    return selectors.LabelSelector.of(wanted) if wanted else selectors.EVERYTHING


def read_nodes(selector: core.NodeSelector | None, at: str) -> selectors.NodeSelector | None:
    """A node selector; None means that any node will do."""
    if selector is None:
        return None
    terms = enumerate(selector.node_selector_terms or ())
    return selectors.NodeSelector(tuple(_read_term(term, f"{at}.nodeSelectorTerms[{i}]") for i, term in terms))


def read_affinity(
    selector: core.NodeSelector | None, at: str, complaints: list[fields.InvalidField]
) -> selectors.NodeSelector | None:
    """A node selector as kube-scheduler takes it: a term that cannot be parsed matches no node; the others count."""
    if selector is None:
        return None
    terms: list[selectors.NodeSelectorTerm] = []
    for i, term in enumerate(selector.node_selector_terms or ()):
        try:
            terms.append(_read_term(term, f"{at}.nodeSelectorTerms[{i}]"))
        except fields.InvalidField as error:
            complaints.append(error)
            terms.append(selectors.NodeSelectorTerm())
    return selectors.NodeSelector(tuple(terms))


def _read_term(term: core.NodeSelectorTerm, at: str) -> selectors.NodeSelectorTerm:
    expressions = [
        _read_requirement(expression, _NODE_OPERATORS, f"{at}.matchExpressions[{i}]")
        for i, expression in enumerate(term.match_expressions or ())
    ]
    names = [_read_field(field, f"{at}.matchFields[{i}]") for i, field in enumerate(term.match_fields or ())]
    return selectors.NodeSelectorTerm(selectors.in_order(expressions), selectors.in_order(names))


def _read_field(field: meta.Requirement, at: str) -> selectors.Requirement:
    """A requirement on a field of the node: its name, equal to one value or not."""
    fields.choose(field.key, ("metadata.name",), f"{at}.key")
    if len(field.values or ()) != 1:
        raise fields.InvalidField(f"{at}.values", field.values, "exactly one value")
    return _read_requirement(field, ("In", "NotIn"), at)


def _read_requirement(model: meta.Requirement, operators: tuple[str, ...], at: str) -> selectors.Requirement:
    if not model.key:
        raise fields.InvalidField(f"{at}.key", model.key, "the key of a label")
    operator = selectors.Operator(fields.choose(model.operator, operators, f"{at}.operator"))
    values = tuple(sorted(set(model.values or ())))
    if complaint := selectors.complain(operator, values):
        raise fields.InvalidField(f"{at}.values", model.values, complaint)
    return selectors.Requirement(model.key, operator, values)
