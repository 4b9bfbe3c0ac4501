"""The site: what its table of contents names is there, and its pages fetch nothing from elsewhere."""

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tools import markdown_documents, mkdocs_hooks, source_analysis

CONFIG = yaml.safe_load((source_analysis.ROOT / "mkdocs.yml").read_text())
DOCS = source_analysis.ROOT / CONFIG["docs_dir"]


def find_pages(nav: Any) -> Iterator[str]:
    for entry in nav:
        for target in entry.values():
            yield from find_pages(target) if isinstance(target, list) else (target,)


def rewrite(markdown: str, path: str) -> str:
    return mkdocs_hooks.on_page_markdown(markdown, SimpleNamespace(file=SimpleNamespace(src_uri=path)))


def test_every_page_of_the_table_of_contents_is_there_once() -> None:
    pages = list(find_pages(CONFIG["nav"]))
    assert [page for page in pages if not (DOCS / page).is_file()] == []
    assert sorted(set(pages)) == sorted(pages)


def test_pages_fetch_nothing_from_elsewhere() -> None:
    assert CONFIG["theme"]["font"] is False
    assert "analytics" not in CONFIG["extra"]
    for path in markdown_documents.find_documents():
        text = markdown_documents.read(path)
        assert "```mermaid" not in text, path  # the theme would fetch what draws it
        assert not re.search(r"!\[[^]]*\]\(http", text), path
        assert "<script" not in text, path


def test_pictures_fetch_nothing_from_elsewhere() -> None:
    for path in sorted((DOCS / "pictures").glob("*.svg")):
        assert not re.search(r"(href|src) *= *[\"']http|url\( *[\"']?http|@import", path.read_text()), path


@pytest.mark.parametrize("name", ["deployment", "flow", "memory", "scale-down", "scale-up"])
def test_drawings_say_what_they_show_to_those_who_cannot_see_them(name: str) -> None:
    text = (DOCS / "pictures" / f"{name}.svg").read_text()
    assert 'role="img"' in text
    assert "<title" in text
    assert "<desc" in text


def test_links_out_of_the_documents_are_named_instead() -> None:
    assert rewrite("see [the CRDs](../deploy/crds).", "capacity-apis.md") == "see the CRDs (`deploy/crds`)."
    assert rewrite("[flags](../flags.md)", "reference/commands.md") == "[flags](../flags.md)"
    assert rewrite("[x](../../testbed#y)", "decisions/030-testbed.md") == "x (`testbed`)"
