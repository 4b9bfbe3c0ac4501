"""Licences: under which terms each dependency may be used, as the package itself says, and which terms will do."""

import importlib.metadata
from typing import Any

from license_expression import ExpressionError, get_spdx_licensing

from tools import dependencies, markdown_tables

ALLOWED = frozenset(
    {
        "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "PSF-2.0", "Zlib",
    }
)  # fmt: skip
"""Terms that ask for no more than to keep their text: whoever ships windlass may do so under its own licence."""

_SPELLINGS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "MIT License": "MIT",
    "Python Software Foundation License": "PSF-2.0",
}
"""What packages wrote before there were expressions. `BSD` is not here: there are several."""

_READ = {"jinja2": "BSD-3-Clause", "partd": "BSD-3-Clause", "zict": "BSD-3-Clause"}
"""Of packages that say only `BSD`: as their licence files read."""

_SPDX = get_spdx_licensing()

_PAGE = (
    "Every package that windlass runs with, at the version that it is tested with, and the terms that the package "
    "gives itself. A test fails if one gives none, or one that is not on the list of `tools/licences.py`: "
)


def find(name: str) -> str:
    """The terms of an installed package as an SPDX expression; empty if it gives none that is known."""
    told = importlib.metadata.metadata(name).json
    if expression := told.get("license_expression"):
        return str(expression)
    classifiers = [item.rpartition(" :: ")[2] for item in told.get("classifier", ()) if item.startswith("License ::")]
    for spelled in (told.get("license", ""), *classifiers):
        known = _SPELLINGS.get(str(spelled), str(spelled))
        if known in ALLOWED:
            return known
    return _READ.get(name, "")


def is_allowed(expression: str) -> bool:
    """Whether the terms will do: all of those joined by AND, one of those joined by OR."""
    try:
        terms = _SPDX.parse(expression, validate=True)
    except ExpressionError:
        return False
    return terms is not None and _are_allowed(terms)


def _are_allowed(terms: Any) -> bool:
    if isinstance(terms, _SPDX.AND):
        return all(map(_are_allowed, terms.args))
    if isinstance(terms, _SPDX.OR):
        return any(map(_are_allowed, terms.args))
    return str(terms) in ALLOWED


def page() -> str:
    found = dependencies.find()
    lines = markdown_tables.begin("Licences", _PAGE + ", ".join(sorted(ALLOWED)) + ".")
    for title, several in (
        ("Always there", [dependency for dependency in found if not dependency.is_optional]),
        ("With an extra", [one for one in found if one.is_optional]),
    ):
        rows = (
            [
                markdown_tables.code(one.name),
                one.version,
                find(one.name),
                ", ".join(map(markdown_tables.code, one.parts)),
            ]
            for one in several
        )
        lines += [f"## {title}", "", *markdown_tables.table(("package", "version", "licence", "part"), rows)]
    return "\n".join(lines)


def main() -> int:
    """Print every dependency's terms; 1 if some will not do."""
    found = dependencies.find()
    refused = 0
    for one in found:
        terms = find(one.name)
        will_do = is_allowed(terms)
        refused += not will_do
        print(f"{' ' if will_do else '✗'} {one.name:20} {one.version:12} {terms or 'no licence known'}")
    print(f"{len(found)} packages: " + (f"{refused} under terms that WILL NOT DO" if refused else "all terms will do"))
    return 1 if refused else 0
