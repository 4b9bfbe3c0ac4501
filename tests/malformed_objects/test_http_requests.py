"""Requests to the dashboard, and to the server of health and metrics: any path, query and header.

What cannot be answered is refused; nothing fails inside, and nobody is kept waiting.
"""

import random

import aiohttp
import pytest
import yarl
from hypothesis import given

from tests import strategies
from tests.malformed_objects import mutations
from tests.unexpected_error_guard import Unforeseen
from tests.web import dashboard_server

PATHS = (
    "/", "/published", "/published/stream", "/explain/pod/default/p", "/explain/node/a-0", "/explain/group/a",
    "/session", "/published/../..//etc/passwd", "/explain/pod//", "/explain/unknown/x", "/app.js", "/published/pods",
)  # fmt: skip
QUERIES = ("after", "limit", "namespace", "name", "epoch", "from", "wait")
_SECONDS = aiohttp.ClientTimeout(total=20)


@given(mutations.seeds)
@strategies.examples(8)
@pytest.mark.asyncio
async def test_whatever_is_asked_for_the_dashboard_answers(chance: random.Random) -> None:
    cluster = dashboard_server.Cluster()
    cluster.go_round()
    with Unforeseen() as unforeseen:
        async with dashboard_server.serve(cluster) as url, aiohttp.ClientSession(timeout=_SECONDS) as session:
            for _ in range(40):
                await _ask(session, url, chance)
    assert not unforeseen.found


async def _ask(session: aiohttp.ClientSession, url: str, chance: random.Random) -> None:
    path = chance.choice(PATHS)
    if chance.random() < 0.5:
        path += "/" + yarl.URL.build(path="/" + chance.choice(mutations.ODD_TEXTS)[:1000]).raw_path.lstrip("/")
    query = "&".join(f"{chance.choice(QUERIES)}={chance.choice(mutations.ODD_TEXTS)[:1000]}" for _ in range(2))
    asked = yarl.URL(f"{url}{path}", encoded=True).with_query(query if chance.random() < 0.5 else "")
    headers = {
        chance.choice(("Accept", "Range", "If-None-Match", "Last-Event-ID", "Authorization", "Cookie")): chance.choice(
            ("bytes=-1", "*", "windlass=1", "Bearer x", "9" * 500, "text/event-stream;q=nan")
        )
    }
    method = chance.choice(("GET", "GET", "GET", "HEAD", "POST", "DELETE", "OPTIONS", "PATCH"))
    async with session.request(method, asked, headers=headers) as answer:
        assert answer.status < 500, f"{method} {asked}: {answer.status}"
