"""A browser for the tests of a module, where the machine has one."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.web import chromium


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tab() -> AsyncIterator[chromium.Page]:
    """One tab, at whatever page the last test left it."""
    binary = chromium.find()
    if binary is None:
        pytest.skip("NO CHROMIUM HERE: the dashboard's page is not tested in a browser")
    async with chromium.browse(binary) as page:
        yield page
