"""The frame of a page: one HTML file that needs nothing else, with the style that all pages share."""

import base64
import hashlib
import html
import importlib.resources
from typing import Any

import msgspec

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" \
content="default-src 'none'; style-src 'unsafe-inline'; script-src '{allowed}'">
<title>{title} · windlass</title>
<style>
{style}</style>
</head>
<body>
<main>
"""
_TAIL = """</main>
<script>{script}</script>
</body>
</html>
"""


def around(body: str, title: str, style: str = "", script: str = "") -> str:
    """The whole text; `style` comes on top of the shared one. No script runs but this one, whatever the body holds."""
    script = f"\n{script}"
    allowed = f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
    head = _HEAD.format(title=html.escape(title), style=read_own("page.css") + style, allowed=allowed)
    return f"{head}\n{body}\n{_TAIL.format(script=script)}"


def embed(data: Any) -> str:
    """Data for the script. Without a `<` in it, nothing in it can end or begin an element."""
    text = msgspec.json.encode(data).decode().replace("<", "\\u003c")
    return f'<script type="application/json" class="data">{text}</script>'


def read_own(name: str) -> str:
    """A file beside this one."""
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
