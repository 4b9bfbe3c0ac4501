"""What is put in the place of a piece of code: of each kind of node, the nodes that someone might have meant instead.

Decorators, annotations, docstrings and imports are left alone: they say what kind of thing something is, not what is
decided. So is what is raised where the code says that it never comes to it.
"""

import ast
from collections.abc import Iterator

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_OPPOSITES = {"any": "all", "all": "any", "min": "max", "max": "min"}
_CONDITIONAL = (ast.If, ast.While, ast.IfExp)


def replacements(node: ast.AST, parent: ast.AST) -> Iterator[ast.AST]:
    """What may stand in a node's place."""
    match node:
        case ast.Constant():
            yield from _constants(node)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            for place, op in enumerate(ops):
                for other in _COMPARISONS[type(op)]:
                    yield ast.Compare(left, [*ops[:place], other(), *ops[place + 1 :]], comparators)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            yield ast.BinOp(left, _ARITHMETIC[type(op)](), right)
        case ast.Name(id=name) if name in _OPPOSITES and isinstance(parent, ast.Call) and parent.func is node:
            yield ast.Name(_OPPOSITES[name], ast.Load())
        case ast.Tuple(elts=named) if isinstance(parent, ast.Assign | ast.AnnAssign) and len(named) > 1:
            for place in range(len(named)):
                yield ast.Tuple(named[:place] + named[place + 1 :], ast.Load())
        case ast.stmt():
            yield from _statements(node)
    if _is_condition(node, parent):
        yield ast.UnaryOp(ast.Not(), node)  # type: ignore[arg-type]  # conditions are expressions


def _constants(node: ast.Constant) -> Iterator[ast.AST]:
    match node.value:
        case bool(value):
            yield ast.Constant(not value)
        case int(value):
            yield ast.Constant(value + 1)
        case str(value):
            yield ast.Constant(value + "XX")


def _statements(node: ast.stmt) -> Iterator[ast.stmt]:
    match node:
        case ast.AugAssign(target=target, op=op, value=value):
            if type(op) in _ARITHMETIC:
                yield ast.AugAssign(target, _ARITHMETIC[type(op)](), value)
            yield ast.Pass()
        case ast.Return(value=value) if value is not None and not _is_flag(value):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()) | ast.Raise() | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()


def _is_condition(node: ast.AST, parent: ast.AST) -> bool:
    """Of what is neither compared, joined nor negated: there the operator is changed already."""
    if isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp):
        return False
    if isinstance(parent, ast.comprehension):
        return any(item is node for item in parent.ifs)
    return isinstance(parent, _CONDITIONAL) and parent.test is node


def _is_flag(node: ast.expr) -> bool:
    """Nothing, or a truth, whose opposite is tried as it is."""
    return isinstance(node, ast.Constant) and node.value in (None, True, False)
