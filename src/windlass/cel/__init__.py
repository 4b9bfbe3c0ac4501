"""The Common Expression Language, as far as Kubernetes lets objects use it to select devices.

Lives here: reading an expression (`lexer`, `parser`, `syntax`), checking that it can be evaluated at all (`checking`),
evaluating it (`program`), and the functions it may call (`functions`, `strings`, `amounts`). Never here: what the
variables mean; whoever evaluates says that.

    program = cel.compile('device.driver == "gpu.example.com"', ("device",))
    program.evaluate({"device": {...}})

Values are Python's own (bool, int, float, str, bytes, None, list, dict) and `values.Version`, `quantity.Quantity` and
`values.Optional`. An expression that cannot be read raises `CompileError`, one that fails on its input
`EvaluationError`, in the words of Kubernetes' own implementation where those are short.

Left out, and refused by name when an expression is compiled: timestamps and durations, URLs, IP addresses, formats
and the authorizer. Costs are not counted: the API server refuses expensive expressions before anyone can use them.
"""

from windlass.cel.program import Program, compile
from windlass.cel.values import CompileError, EvaluationError

__all__ = ["CompileError", "EvaluationError", "Program", "compile"]
