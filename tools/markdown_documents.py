"""Prose: documents as readers see them: their links, headings, commands and flags."""

import functools
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tools import source_analysis

_FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_PROGRAM = re.compile(r"^(?:\$ )?(?:\S+=\S+ )*(?:\S*/)?(windlass|kubectl-windlass|cluster-autoscaler)(?= |$)(.*)$")
_THROUGH = re.compile(r"\bkubectl windlass\b")
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
_SHELL = re.compile(r"\s(?:\||&&|;|>|&)(?:\s|$)")
_PLACEHOLDERS = ("…", "...")


def find_documents() -> list[Path]:
    """Every document of the project, generated ones included."""
    root = source_analysis.ROOT
    names = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "examples/README.md")
    tops = [root / name for name in (*names, "deploy/helm/windlass/README.md")]
    return [*(path for path in tops if path.exists()), *sorted((root / "docs").rglob("*.md"))]


@functools.cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def find_links(path: Path) -> Iterator[str]:
    """Targets of links, but for those in code."""
    yield from _LINK.findall(_SPAN.sub("", _FENCE.sub("", read(path))))


@functools.cache
def find_anchors(path: Path) -> frozenset[str]:
    """What a link into this document may end with: its headings, as sites spell them."""
    headings = _HEADING.findall(_FENCE.sub("", read(path)))
    return frozenset(_slug(heading) for heading in headings)


def find_blocks(path: Path) -> Iterator[str]:
    """Lines of code, fenced or indented. A line that ends in a backslash goes on."""
    text = read(path)
    for language, block in _FENCE.findall(text):
        if language in ("", "sh", "console", "bash"):
            yield from block.replace("\\\n", " ").splitlines()
    yield from (line.strip() for line in _FENCE.sub("", text).splitlines() if line.startswith("    "))


def find_spans(path: Path) -> Iterator[str]:
    """Code within sentences."""
    return (" ".join(span.split()) for span in _SPAN.findall(_FENCE.sub("", read(path))))


def find_commands(lines: Iterator[str]) -> Iterator[tuple[str, list[str]]]:
    """(program, words) of each command line of ours. What stands for more than one word is left out."""
    for line in lines:
        whole = _THROUGH.sub("windlass", line.strip()).partition(" #")[0]
        for part in re.split(r" \| | && |; ", whole):
            found = _PROGRAM.match(part.strip())
            if found:
                yield found[1], _split(_SHELL.split(found[2])[0])


def find_flags(path: Path) -> Iterator[str]:
    """Flags that a document speaks of in code, but for those of other programs' command lines."""
    for line in itertools.chain(find_blocks(path), find_spans(path)):
        if not re.match(r"(\$ )?(kubectl|oc|helm|python|make|pip|uv|go|git|docker|\./)\b(?! windlass)", line.strip()):
            yield from _FLAG.findall(line)


def _split(rest: str) -> list[str]:
    try:
        words = shlex.split(rest, comments=True)
    except ValueError:
        words = rest.split()
    return [word for word in words if not any(mark in word for mark in _PLACEHOLDERS)]


def _slug(heading: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
