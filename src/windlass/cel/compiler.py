"""Compiled CEL programs: compilation, evaluation, and the cost limit.

Unknown names and functions and wrong numbers of arguments are compile errors. Where the cost is known to stay below the
limit, the program runs without metering.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from windlass.cel import checker, costs, node_builders, parser
from windlass.cel.code import Builder, Code, Scope, Step, Variables
from windlass.cel.values import CompileError, EvaluationError, Value, as_evaluation_error

_MAX_DEPTH = 251

_TOO_DEEP = "max recursion depth exceeded"

Records: TypeAlias = Mapping[str, checker.RecordType]

_NO_RECORDS: Records = {}


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression. Evaluation has no side effects."""

    text: str
    metered: Code
    """Code that counts costs."""
    unmetered: Step
    """Code that counts no costs, for limits that the expression cannot exceed."""
    most: float
    """Upper bound of the expression's cost; None if it depends on the input."""
    type: str
    """The static type of its value: see `checker`."""

    def evaluate(self, variables: Variables, max_cost: int = costs.MAX_COST) -> Value:
        """The value of the expression. EvaluationError for any failure on these variables."""
        try:
            if self.most <= max_cost:
                return self.unmetered(variables)
            meter = costs.Meter(max_cost)
            meter.charge(self.metered.cost)
            return self.metered.step({**variables, costs.METER_KEY: meter})
        except EvaluationError:
            raise
        except Exception as error:
            raise as_evaluation_error(error) from error


def compile(text: str, variables: tuple[str, ...], records: Records = _NO_RECORDS) -> Program:
    """Compile an expression over variables of these names. CompileError if it is invalid.

    `records` are the types of variables whose fields are known.
    """
    try:
        tree, scope = parser.parse(text), Scope(frozenset(variables), records=records)
        metered = build_code(tree, scope)
        if scope.issues:
            raise CompileError(checker.format_issues(text, scope.issues))
        if metered.most is None:
            return Program(text, metered, metered.step, math.inf, metered.type)
        unmetered = build_code(tree, replace(scope, is_metered=False))
        return Program(text, metered, unmetered.step, metered.most, metered.type)
    except CompileError as error:
        if str(error).startswith("ERROR: "):
            raise
        raise CompileError(checker.format_issues(text, (checker.Issue(error.at, str(error)),))) from error
    except Exception as error:
        internal = checker.Issue(-1, f"internal error: {type(error).__name__}: {error}"[:300])
        raise CompileError(checker.format_issues(text, (internal,))) from error


def build_code(tree: parser.Node, scope: Scope) -> Code:
    """Compile a tree. Node builders request the code of other nodes."""
    stack: list[Builder] = []
    made = node_builders.build_node(tree, scope)
    while not isinstance(made, Code) or stack:
        try:
            if isinstance(made, Code):
                made = node_builders.build_node(*stack[-1].send(made))
                continue
            if len(stack) >= _MAX_DEPTH:
                raise CompileError(_TOO_DEEP)
            stack.append(made)
            made = node_builders.build_node(*next(made))
        except StopIteration as done:
            stack.pop()
            made = done.value
    return made
