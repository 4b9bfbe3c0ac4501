"""A real browser without a window, driven over its DevTools protocol: no driver, no download, one websocket."""

import asyncio
import base64
import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome")
_BEGIN_S = 60.0
_ANSWER_S = 60.0

Json = dict[str, Any]


def find() -> str | None:
    """The browser of this machine, if it has one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab. `requests` and `complaints` are what it asked for and what it wrote to its console."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Json]] = {}
        self._loaded = asyncio.Event()
        self.requests: list[str] = []
        self.complaints: list[str] = []

    async def read(self) -> None:
        """Until the browser ends."""
        async for message in self._socket:
            said = message.json()
            if "id" in said:
                self._answers.pop(said["id"]).set_result(said)
            else:
                self._note(said["method"], said["params"])

    def _note(self, method: str, params: Json) -> None:
        match method:
            case "Page.loadEventFired":
                self._loaded.set()
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.complaints.append(params["entry"]["text"])
            case "Runtime.exceptionThrown":
                self.complaints.append(str(params["exceptionDetails"].get("exception", params)))

    async def call(self, method: str, **params: Any) -> Json:
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        async with asyncio.timeout(_ANSWER_S):
            answer = await self._answers[number]
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        found: Json = answer["result"]
        return found

    async def open(self, url: str) -> None:
        for part in ("Page", "Network", "Runtime", "Log", "DOM"):
            await self.call(f"{part}.enable")
        self._loaded.clear()
        await self.call("Page.navigate", url=url)
        async with asyncio.timeout(_ANSWER_S):
            await self._loaded.wait()

    async def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are waited for."""
        found = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    async def wait(self, expression: str, within_s: float = 60.0) -> Any:
        """Until it is true, and what it is."""
        value = None
        try:
            async with asyncio.timeout(within_s):
                while not (value := await self.ask(expression)):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            said = "; ".join(self.complaints)
            raise AssertionError(f"not within {within_s:g} s: {expression}; the page says: {said}") from None
        return value

    async def press(self, key: str, shift: bool = False) -> None:
        """A key, as a person presses it."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        code = codes.get(key, ord(key.upper()) if len(key) == 1 else 0)
        given = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        await self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **given)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **given)

    async def click(self, x: float, y: float) -> None:
        await self.point(x, y)
        await self.click_there(x, y)

    async def point(self, x: float, y: float) -> None:
        """Go there with the mouse."""
        await self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, button="none")

    async def click_there(self, x: float, y: float) -> None:
        """Where the mouse is already, without moving it."""
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def resize(self, width: int, height: int, *, scale: float = 1.0, is_phone: bool = False) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=is_phone
        )

    async def prefer(self, scheme: str) -> None:
        """light or dark"""
        await self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    async def picture(self) -> bytes:
        """What is to be seen, as PNG."""
        return base64.b64decode((await self.call("Page.captureScreenshot", format="png"))["data"])

    async def heap_bytes(self) -> int:
        """What the page holds after a collection."""
        await self.call("HeapProfiler.collectGarbage")
        return int((await self.call("Runtime.getHeapUsage"))["usedSize"])


@contextlib.asynccontextmanager
async def browse(binary: str) -> AsyncIterator[Page]:
    """An empty tab of a browser of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        process = await asyncio.create_subprocess_exec(
            binary, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--disable-extensions", "--force-color-profile=srgb", "--hide-scrollbars", "--mute-audio",
            f"--user-data-dir={home}", "--remote-debugging-port=0", "--window-size=1440,900", "about:blank",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, "HOME": home},
        )  # fmt: skip
        try:
            port = await _find_port(Path(home))
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                    tabs = await answer.json()
                url = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
                async with session.ws_connect(url, max_msg_size=0) as socket:
                    page = Page(socket)
                    reading = asyncio.create_task(page.read())
                    try:
                        yield page
                    finally:
                        reading.cancel()
                        await asyncio.gather(reading, return_exceptions=True)
        finally:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), 10)
            except TimeoutError:
                process.kill()
                await process.wait()


async def _find_port(home: Path) -> int:
    """The browser writes it down when it has begun."""
    file = home / "DevToolsActivePort"
    async with asyncio.timeout(_BEGIN_S):
        while not file.exists() or "\n" not in file.read_text():
            await asyncio.sleep(0.05)
    return int(file.read_text().splitlines()[0])
