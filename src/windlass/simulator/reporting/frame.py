"""The frame of a page: one HTML file that needs nothing else, with the style that all pages share."""

import html
import importlib.resources

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" \
content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>{title} · windlass</title>
<style>
{style}</style>
</head>
<body>
<main>
"""
_TAIL = """</main>
<script>
{script}</script>
</body>
</html>
"""


def around(body: str, title: str, style: str = "", script: str = "") -> str:
    """The whole text; `style` comes on top of the shared one."""
    head = _HEAD.format(title=html.escape(title), style=read_own("page.css") + style)
    return f"{head}\n{body}\n{_TAIL.format(script=script)}"


def read_own(name: str) -> str:
    """A file beside this one."""
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
