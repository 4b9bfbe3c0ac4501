import base64
import hashlib
import json
import re

import pytest

from windlass.simulator.report import charts


@pytest.mark.parametrize("text", ["</script><b>", "<!--<script", "<", "a < b & c", "\u2028"])
def test_embedded_data_neither_ends_nor_begins_an_element(text: str) -> None:
    made = charts.embed_json({"name": text})
    inner = made.removeprefix('<script type="application/json" class="data">').removesuffix("</script>")
    assert "<" not in inner
    assert json.loads(inner) == {"name": text}


@pytest.mark.parametrize("script", ["", charts.read_resource("page.js")], ids=["no script", "page.js"])
def test_the_page_lets_no_script_run_but_its_own(script: str) -> None:
    page = charts.render_document("<script>alert(1)</script>", "title", script=script)
    own = page.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="(.*?)">', page)
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert own.strip() == script.strip()
