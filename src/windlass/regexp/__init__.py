r"""Regular expressions with the syntax and the meaning of Go's `regexp` package (RE2), in time linear in the text.

Expressions come from ConfigMaps, ResourceClaims, CRDs and recordings: from people who write for Go, and from people
who mean harm. Python's `re` backtracks, holds the interpreter lock while it does, and reads some expressions
differently. Here no expression backtracks: `syntax` reads one by Go's rules and compiles it, `matcher` follows all of
its alternatives at once, `classes` says which characters belong to a class.

    regexp.compile("^gpu-[0-9]+$").matches("gpu-7")

Refused although Go has them: classes of scripts (`\p{Greek}`), and expressions that compile to more than
`syntax.MAX_INSTRUCTIONS`. Errors have Go's text. Nothing but the standard library is imported here.
"""

from windlass.regexp.matcher import Regexp, StepLimitExceeded, compile
from windlass.regexp.syntax import InvalidExpression

__all__ = ["InvalidExpression", "Regexp", "StepLimitExceeded", "compile"]
