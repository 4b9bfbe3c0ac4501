"""The Common Expression Language (CEL), in the subset that Kubernetes uses for device selectors.

Contents: the parser (`parser`), compilation and evaluation (`compiler`, `macros`), static type checks (`checker`),
costs (`cost`), values and functions (`values`, `operators`, `functions`). The meaning of variables is defined by the
caller.

    program = cel.compile('device.driver == "gpu.example.com"', ("device",))
    program.evaluate({"device": {...}})

Values are Python's own (bool, int, float, str, bytes, None, list, dict), `quantity.Quantity` and those of
`values`. An invalid expression raises `CompileError`, one that fails on its input
`EvaluationError`, with the messages of cel-go, which Kubernetes uses.

Untrusted expressions are safe: nesting takes no recursion, regular expressions never backtrack, an evaluation ends at
the cost limit of Kubernetes, sizes are bounded, and any other exception becomes an error of the expression.

Unsupported, and refused by name when an expression is compiled: timestamps and durations, URLs, formats and the
authorizer. Simple types are checked statically (`checker`): literals, variables and operators on them. The API server
has checked the rest.
"""

from windlass.cel.compiler import Program, compile
from windlass.cel.values import CompileError, EvaluationError

__all__ = ["CompileError", "EvaluationError", "Program", "compile"]
