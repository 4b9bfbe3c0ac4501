"""Hooks of the site's build: documents link to files of the repository, which are no pages and are named instead."""

import posixpath
import re
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)\s#]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A page with links out of docs/ written as what they name; called by MkDocs for each page."""
    here = posixpath.dirname(page.file.src_uri)

    def rewrite(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(here, found[2]))
        return f"{found[1]} (`{target.removeprefix('../')}`)" if target.startswith("../") else found[0]

    return _LINK.sub(rewrite, markdown)
