"""Compiled CEL programs: compilation, evaluation, and the cost limit.

Unknown names and functions and wrong numbers of arguments are compile errors. Where the cost is known to stay below the
limit, the program runs without metering.

Node builders: each kind of expression node becomes a function of the variables, with its cost.

A cost that is always spent with a node is added to the node around it; a cost spent on one branch only, or again for
every item, is charged there. `&&` and `||` ignore an error on one side when the other side decides.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from windlass.cel import checker, cost, functions, macros, operators, parser
from windlass.cel import cost as costs
from windlass.cel.cost import Builder, Code, Scope, Step, Variables, build_all, charge, sum_costs
from windlass.cel.values import (
    NO_OVERLOAD,
    TYPE_NAMES,
    Cancelled,
    CompileError,
    EvaluationError,
    Function,
    Map,
    Optional,
    Type,
    Value,
    as_evaluation_error,
)

_BROKEN = Code(lambda _: None)
"""Placeholder for an invalid node, so that the rest of the expression is checked, too."""


def build_node(node: parser.Node, scope: Scope) -> Code | Builder:
    match node:
        case parser.Literal(value):
            return Code(lambda _: value, is_constant=True, type=checker.of_literal(value))
        case parser.Identifier(name, at):
            if name not in scope.names and name in TYPE_NAMES:
                named = Type(name)
                return Code(lambda _: named, is_constant=True)
            if name not in scope.names:
                scope.issues.append(checker.undeclared_reference(name, at))
                return _BROKEN
            if name in scope.bound:
                return Code(lambda variables: _use(variables[name]), cost=1)
            record = scope.records.get(name)
            return Code(lambda variables: variables[name], cost=1, type=record.name if record else checker.UNKNOWN)
        case parser.Select():
            return _build_select(node, scope)
        case parser.Index():
            return _build_index(node, scope)
        case parser.ListLiteral():
            return _build_list(node, scope)
        case parser.MapLiteral():
            return _build_map(node, scope)
        case parser.Call():
            return _build_call(node, scope)


def _use(value: Value) -> Value:
    if isinstance(value, EvaluationError):
        raise value
    return value


def _fold(code: Code) -> Code:
    """Code over constants only: evaluated now and free, unless it fails."""
    try:
        value = code.step({costs.METER_KEY: costs.Meter(costs.MAX_COST)})
    except Exception:
        return code
    return Code(lambda _: value, is_constant=True)


def _select_cost(operand: parser.Node) -> int:
    """A chain of selections costs one each, and one for what it begins with."""
    return 1 if isinstance(operand, parser.Identifier | parser.Select | parser.Index) else 2


def _check_field(node: parser.Select, operand: str, at: int, scope: Scope) -> str:
    """The type of a field of an operand of this type."""
    record = scope.records.get(node.operand.name) if isinstance(node.operand, parser.Identifier) else None
    if record is None:
        return checker.of_item(operand)
    if node.field not in record.fields:
        scope.issues.append(checker.undefined_field(node.field, at))
    return record.fields.get(node.field, checker.UNKNOWN)


def _build_select(node: parser.Select, scope: Scope) -> Builder:
    operand = yield node.operand, scope
    field_type = _check_field(node, operand.type, node.at, scope)
    container, field = operand.step, node.field
    cost = operand.cost + _select_cost(node.operand)
    if node.is_optional:
        return Code(lambda variables: operators.find_optional(container(variables), field), cost, operand.more)
    return Code(lambda variables: operators.look_up(container(variables), field), cost, operand.more, type=field_type)


def _build_index(node: parser.Index, scope: Scope) -> Builder:
    operand = yield node.operand, scope
    index = yield node.key, scope
    container, key = operand.step, index.step
    cost = operand.cost + index.cost + _select_cost(node.operand)
    more = sum_costs((operand.more, index.more))
    if node.is_optional:
        return Code(lambda variables: operators.find_optional(container(variables), key(variables)), cost, more)
    if index.is_constant:
        constant = key({})
        item = checker.of_item(operand.type)
        return Code(lambda variables: operators.look_up(container(variables), constant), cost, more, type=item)
    return Code(lambda variables: operators.look_up(container(variables), key(variables)), cost, more)


def _build_list(node: parser.ListLiteral, scope: Scope) -> Builder:
    codes = yield from build_all(node.items, scope)
    items = [(code.step, number in node.optional) for number, code in enumerate(codes)]

    def evaluate(variables: Variables) -> Value:
        made: list[Value] = []
        for item, is_optional in items:
            value = item(variables)
            if not is_optional:
                made.append(value)
            elif _given(value):
                made.append(value.value)
        return made

    return _combine(evaluate, codes, costs.CREATE_LIST)


def _combine(step: Step, parts: list[Code], cost: int) -> Code:
    """A list or a map of parts: made once, and free, if all of them are constants."""
    code = Code(step, cost + sum(part.cost for part in parts), sum_costs(part.more for part in parts))
    return _fold(code) if all(part.is_constant for part in parts) else code


def _build_map(node: parser.MapLiteral, scope: Scope) -> Builder:
    codes = yield from build_all(itertools.chain.from_iterable(node.entries), scope)
    entries = [
        (key.step, value.step, number in node.optional)
        for number, (key, value) in enumerate(zip(codes[::2], codes[1::2], strict=True))
    ]

    def evaluate(variables: Variables) -> Value:
        made: list[tuple[Value, Value]] = []
        for key, item, is_optional in entries:
            name, value = key(variables), item(variables)
            if not is_optional:
                made.append((name, value))
            elif _given(value):
                made.append((name, value.value))
        return Map(made)

    return _combine(evaluate, codes, costs.CREATE_MAP)


def _given(value: Value) -> bool:
    if not isinstance(value, Optional):
        raise EvaluationError(NO_OVERLOAD)
    return value.has_value


_MAX_FOLDED = 50
"""Largest cost of a call over constants that is evaluated at compile time, without being counted."""

_CONVERSIONS = frozenset(("int", "uint", "double", "bool", "string", "bytes", "dyn", "type", "duration", "timestamp"))
"""Conversions of constants are evaluated at compile time, without cost."""


def _build_call(node: parser.Call, scope: Scope) -> Builder:
    if node.target is None:
        match node.function:
            case "&&" | "||":
                return (yield from _build_logic(node, scope))
            case "?:":
                return (yield from _build_choice(node, scope))
            case "has":
                return (yield from _build_has(node, scope))
    if node.target is not None and node.function in ("or", "orValue") and len(node.arguments) == 1:
        return (yield from _build_alternative(node, node.target, scope))
    macro = macros.expand_macro(node, scope)
    if macro is not None:
        return (yield from macro)
    called = _find_function(node, scope)
    if called is None:
        return (yield from _build_undeclared(node, scope))
    target = (node.target,) if node.target is not None and called.takes_target else ()
    given = yield from build_all((*target, *node.arguments), scope)
    operand_types = [code.type for code in given]
    if not checker.has_overload(called.name, operand_types):
        scope.issues.append(checker.no_overload(called.name, operand_types, node.at, called.takes_target))
        return _BROKEN
    return replace(_charge_call(called, given, scope), type=checker.of_call(called.name, operand_types))


def _charge_call(called: "_Called", given: list[Code], scope: Scope) -> Code:
    """A call with its cost. Calls over constants are evaluated once; other costs are charged at every call."""
    steps = [code.step for code in given]
    spent, more = sum(code.cost for code in given), sum_costs(code.more for code in given)
    are_constant = [code.is_constant for code in given]
    cost = costs.CALLS.get(called.name, 1)
    if called.name == "in" and are_constant[1] and isinstance(steps[1]({}), list):
        if not steps[1]({}):
            return Code(lambda _: False)
        cost = 0
    if called.name in costs.COMPARISONS and any(
        code.is_constant and costs.has_unit_comparison_cost(code.step({})) for code in given
    ):
        cost = 1
    step = _call(called.function, steps)
    if all(are_constant):
        fixed = cost if isinstance(cost, int) else cost(*(argument({}) for argument in steps))
        folded = _fold(Code(step)) if fixed <= _MAX_FOLDED else Code(step)
        if called.name in _CONVERSIONS and folded.is_constant:
            return folded
        return Code(folded.step, spent + fixed)
    if isinstance(cost, int):
        return Code(step, spent + cost, more)
    bound = costs.bound_comparison(steps, are_constant) if called.name in costs.COMPARISONS else None
    charged = _call_at_cost(called.function, steps, cost) if scope.is_metered else step
    return Code(charged, spent, sum_costs((more, bound)))


def _call(function: Function, given: list[Step]) -> Step:
    if len(given) == 1:
        (only,) = given
        return lambda variables: function(only(variables))
    if len(given) == 2:
        first, second = given
        return lambda variables: function(first(variables), second(variables))
    return lambda variables: function(*[argument(variables) for argument in given])


def _call_at_cost(function: Function, given: list[Step], cost: costs.CallCost) -> Step:
    """A call whose cost depends on its arguments. It is charged before the call."""
    if len(given) == 2:
        first, second = given

        def call_two(variables: Variables) -> Value:
            left, right = first(variables), second(variables)
            charge(variables, cost(left, right))
            return function(left, right)

        return call_two

    def call(variables: Variables) -> Value:
        arguments = [argument(variables) for argument in given]
        charge(variables, cost(*arguments))
        return function(*arguments)

    return call


@dataclass(frozen=True, slots=True)
class _Called:
    name: str
    function: Function
    takes_target: bool = False


def _build_undeclared(node: parser.Call, scope: Scope) -> Builder:
    """An undeclared call: an issue in addition to those of its target and arguments."""
    target = () if node.target is None else (node.target,)
    name = node.function
    if isinstance(node.target, parser.Identifier) and f"{node.target.name}.{name}" in functions.NAMES:
        target, name = (), f"{node.target.name}.{name}"
    if name in functions.LEFT_OUT:
        scope.issues.append(checker.Issue(node.at, f"the function '{name}' is not supported by windlass"))
    elif name not in functions.NAMES:
        scope.issues.append(checker.undeclared_reference(name, node.at))
    given = yield from build_all((*target, *node.arguments), scope)
    if name in functions.NAMES and name not in functions.LEFT_OUT:
        operand_types = [code.type for code in given]
        scope.issues.append(checker.no_overload(name, operand_types, node.at, bool(target)))
    return _BROKEN


def _find_function(node: parser.Call, scope: Scope) -> _Called | None:
    """The called function; None if there is none of that name and number of arguments."""
    count = len(node.arguments)
    function: Function | None
    name = node.function
    match node.target:
        case None:
            function = functions.FUNCTIONS.get((node.function, count))
        case parser.Identifier(namespace) if namespace not in scope.names:
            function = functions.NAMESPACED.get((namespace, node.function, count))
            name = f"{namespace}.{node.function}"
        case _:
            function = functions.METHODS.get((node.function, count))
            if function is not None:
                return _Called(name, function, takes_target=True)
    return None if function is None else _Called(name, function)


def _build_logic(node: parser.Call, scope: Scope) -> Builder:
    decides = node.function == "||"
    sides = yield from build_all(node.arguments, scope)
    for argument, side in zip(node.arguments, sides, strict=True):
        if side.type not in (checker.UNKNOWN, checker.ANY, checker.BOOL):
            scope.issues.append(checker.expected_bool(side.type, argument.at))
    steps = [sides[0].step, *(side.charged(scope) for side in sides[1:])]

    def evaluate(variables: Variables) -> Value:
        failed: EvaluationError | None = None
        for side in steps:
            try:
                value = side(variables)
            except Cancelled:
                raise
            except Exception as error:
                failed = failed or as_evaluation_error(error)
                continue
            if value is decides:
                return decides
            if not isinstance(value, bool):
                failed = failed or EvaluationError(NO_OVERLOAD)
        if failed is not None:
            raise failed
        return not decides

    more = sum_costs((sides[0].more, *(side.most for side in sides[1:])))
    return Code(evaluate, sides[0].cost, more, type=checker.BOOL)


def _build_choice(node: parser.Call, scope: Scope) -> Builder:
    condition = yield node.arguments[0], scope
    branches: list[Code] = []
    for branch in node.arguments[1:]:
        code = yield branch, scope
        is_chain = isinstance(branch, parser.Identifier | parser.Select | parser.Index)
        branches.append(Code(code.step, code.cost - is_chain, code.more, type=code.type))
    operand_types = [condition.type, *(branch.type for branch in branches)]
    if not checker.has_overload("?:", operand_types):
        scope.issues.append(checker.no_overload("?:", operand_types, node.at))
    test, (this, that) = condition.step, [branch.charged(scope) for branch in branches]

    def evaluate(variables: Variables) -> Value:
        selected = test(variables)
        if not isinstance(selected, bool):
            raise EvaluationError(NO_OVERLOAD)
        return this(variables) if selected else that(variables)

    more = sum_costs((condition.more, *(branch.most for branch in branches)))
    return Code(evaluate, condition.cost, more, type=checker.of_call("?:", operand_types))


def _build_alternative(node: parser.Call, target: parser.Node, scope: Scope) -> Builder:
    """`orValue` and `or`: the alternative is evaluated only if there is no value."""
    given = yield target, scope
    alternative = yield node.arguments[0], scope
    source, otherwise, is_value = given.step, alternative.charged(scope), node.function == "orValue"

    def evaluate(variables: Variables) -> Value:
        optional = source(variables)
        if not isinstance(optional, Optional):
            raise EvaluationError(NO_OVERLOAD)
        if optional.has_value:
            return optional.value if is_value else optional
        return otherwise(variables)

    return Code(evaluate, given.cost, sum_costs((given.more, alternative.most)))


def _build_has(node: parser.Call, scope: Scope) -> Builder:
    selected = node.arguments[0] if len(node.arguments) == 1 else node
    if not isinstance(selected, parser.Select) or selected.is_optional:
        raise CompileError("invalid argument to has() macro", selected.at)
    operand = yield selected.operand, scope
    _check_field(selected, operand.type, node.at, scope)
    step, field = operand.step, selected.field

    def evaluate(variables: Variables) -> Value:
        container = step(variables)
        if isinstance(container, Optional):
            return operators.find_optional(container, field).has_value
        if not isinstance(container, Mapping):
            raise EvaluationError(NO_OVERLOAD)
        try:
            container[field]
        except KeyError:
            return False
        return True

    return Code(evaluate, operand.cost + _select_cost(selected.operand) - 1, operand.more, type=checker.BOOL)


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

    def evaluate(self, variables: Variables, max_cost: int = cost.MAX_COST) -> Value:
        """The value of the expression. EvaluationError for any failure on these variables."""
        try:
            if self.most <= max_cost:
                return self.unmetered(variables)
            meter = cost.Meter(max_cost)
            meter.charge(self.metered.cost)
            return self.metered.step({**variables, cost.METER_KEY: meter})
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
    made = build_node(tree, scope)
    while not isinstance(made, Code) or stack:
        try:
            if isinstance(made, Code):
                made = build_node(*stack[-1].send(made))
                continue
            if len(stack) >= _MAX_DEPTH:
                raise CompileError(_TOO_DEEP)
            stack.append(made)
            made = build_node(*next(made))
        except StopIteration as done:
            stack.pop()
            made = done.value
    return made
