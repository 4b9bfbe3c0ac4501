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
    """A compiled expression. Evaluating it changes nothing."""

    text: str
    metered: Code
    """Counts what it costs."""
    unmetered: Step
    """Counts nothing: for limits that the expression cannot exceed."""
    most: float
    """What the expression costs at most, as far as that is known before it is evaluated."""
    type: str
    """What is known of the type of its value: see `types`."""

    def evaluate(self, variables: Variables, max_cost: int = costs.MAX_COST) -> Value:
        """What the expression comes to. EvaluationError where it fails on these variables, whatever the cause."""
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
    """The expression over variables of these names. CompileError if it can never be evaluated, whatever the cause.

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
    """A tree as code. Builders of nodes ask for the code of other nodes."""
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
