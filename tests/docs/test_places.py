"""Paths that the tables of architecture, glossary and CONTRIBUTING name are there."""

import re
from collections.abc import Iterator

import pytest

from tools import markdown_documents, source_analysis

_PATH = re.compile(r"`([\w./-]+(?:\.(?:py|md|toml|tsv|yaml)|/))`")


def find_paths(text: str) -> Iterator[str]:
    """Paths in the cells of a table. A bare file name is beside the path that precedes it in its cell."""
    for line in text.splitlines():
        for cell in line.split("|")[1:-1] if line.startswith("|") else ():
            folder = ""
            for path in _PATH.findall(cell):
                if "/" in path:
                    folder = path[: path.rindex("/") + 1]
                yield path if "/" in path else folder + path


def test_a_bare_name_is_beside_the_path_before_it() -> None:
    assert list(find_paths("| x | `a/b.py`, `c.py`; else: `d/` |\n`not/in.py` a table")) == ["a/b.py", "a/c.py", "d/"]


@pytest.mark.parametrize("name", ["docs/architecture.md", "docs/glossary.md"])
def test_tables_name_modules_that_are_there(name: str) -> None:
    text = markdown_documents.read(source_analysis.ROOT / name)
    paths = list(find_paths(text))
    assert len(paths) > 50
    package = source_analysis.ROOT / "src" / "windlass"
    assert [path for path in paths if not list(package.glob(path))] == []


def test_recipes_name_files_that_are_there() -> None:
    text = markdown_documents.read(source_analysis.ROOT / "CONTRIBUTING.md")
    first_cells = "\n".join(f"|{line.split('|')[1]}|" for line in text.splitlines() if line.startswith("|"))
    real = [path for path in find_paths(first_cells) if "NAME" not in path]
    assert len(real) > 25
    package = source_analysis.ROOT / "src" / "windlass"
    assert [path for path in real if not (source_analysis.ROOT / path).exists() and not (package / path).exists()] == []
