"""The Common Expression Language, as far as Kubernetes lets objects use it to select devices.

Lives here: reading an expression (`lexer`, `parser`, `syntax`), compiling and evaluating it (`program`, `macros`,
`code`, `types`), what is wrong with it (`issues`), what it costs (`costs`), and the functions it may call (`functions`,
`strings`, `lists`, `amounts`). Never here: what the variables mean; the caller says that.

    program = cel.compile('device.driver == "gpu.example.com"', ("device",))
    program.evaluate({"device": {...}})

Values are Python's own (bool, int, float, str, bytes, None, list, dict) and `quantity.Quantity` and those of
`values` and `addresses`. An expression that cannot be read raises `CompileError`, one that fails on its input
`EvaluationError`, in the words of cel-go, which Kubernetes uses.

An expression of a stranger can do no more than fail: nesting takes no recursion, regular expressions never backtrack,
costs are counted as Kubernetes counts them and end an evaluation at its limit, sizes are bounded, and any other
exception becomes an error of the expression.

Left out, and refused by name when an expression is compiled: timestamps and durations, URLs, formats and the
authorizer. Types are checked before an expression is evaluated as far as they are simple (`types`): literals, the
variables and operators on them. The API server has checked the rest.
"""

from windlass.cel.compiler import Program, compile
from windlass.cel.values import CompileError, EvaluationError

__all__ = ["CompileError", "EvaluationError", "Program", "compile"]
