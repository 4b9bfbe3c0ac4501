r"""Regular expressions with the syntax and the meaning of Go's `regexp` package (RE2), in time linear in the text.

Expressions come from ConfigMaps, ResourceClaims, CRDs and recordings: written for Go, and possibly malicious. Python's
`re` backtracks, holds the interpreter lock meanwhile, and parses some expressions differently. Here no expression
backtracks: `syntax` parses by Go's rules and compiles, `matcher` follows all alternatives at once, and
`character_classes` defines classes of characters.

    regexp.compile("^gpu-[0-9]+$").matches("gpu-7")

Unsupported, unlike in Go: classes of scripts (`\p{Greek}`), and expressions that compile to more than
`syntax.MAX_INSTRUCTIONS`. Errors have Go's text. Nothing but the standard library is imported here.
"""

from windlass.regexp.matcher import Regexp, StepLimitExceeded, compile
from windlass.regexp.syntax import InvalidExpression

__all__ = ["InvalidExpression", "Regexp", "StepLimitExceeded", "compile"]
