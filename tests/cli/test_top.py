"""`windlass top` in a real terminal: tmux types, and what stands on the screen is read."""

import asyncio
import contextlib
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.cli.run import windlass
from tests.sweep import command_process, sample_plans
from tests.web.dashboard_server import TOKEN, Cluster
from windlass.observability.options import DashboardOptions
from windlass.web import dashboard

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed: `windlass top` NOT driven")


class Terminal:
    """A terminal of 150 by 40 characters with one command in it."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def _tmux(self, *words: str) -> str:
        ran = subprocess.run(
            ["tmux", "-S", str(self._socket), "-f", "/dev/null", *words], capture_output=True, text=True, check=False
        )
        return ran.stdout

    def run(self, *words: str | Path) -> None:
        top = " ".join(map(str, (sys.executable, "-m", "windlass", *words)))
        command = f"env -u COLUMNS -u LINES {top}; echo ended with $?; sleep 600"
        self._tmux("new-session", "-d", "-s", "top", "-x", "150", "-y", "40", command)

    def type(self, *keys: str) -> None:
        self._tmux("send-keys", "-t", "top", *keys)

    @property
    def screen(self) -> str:
        return self._tmux("capture-pane", "-p", "-t", "top")

    def wait_for(self, *texts: str) -> str:
        """The screen, once all of this stands on it."""
        ends_s = time.monotonic() + command_process.PATIENCE_S
        while not all(text in (seen := self.screen) for text in texts):
            assert time.monotonic() < ends_s, f"{texts} did not appear:\n{seen}"
            time.sleep(0.05)
        return seen

    def escape_from(self, text: str) -> None:
        """Only then may another key follow: Escape and a letter at once are a letter with Alt."""
        self.type("Escape")
        command_process.wait_until(lambda: text not in self.screen)

    def end(self) -> None:
        self._tmux("kill-server")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path / "tmux")
    yield made
    made.end()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A story that takes its time, and where it is served."""
    story, address = tmp_path / "tiny.yaml", f"127.0.0.1:{command_process.find_port()}"
    story.write_text(sample_plans.TINY.replace("duration: 15m", "duration: 10h"))
    words = ["simulate", str(story), "--serve", "--serve-address", address, "--speed", "20", "--report", ""]
    with (tmp_path / "simulate.log").open("wb") as log:
        serving = subprocess.Popen([sys.executable, "-m", "windlass", *words], stdout=log, stderr=log)
    command_process.wait_until(lambda: b"dashboard:" in (tmp_path / "simulate.log").read_bytes())
    yield address, serving
    serving.kill()
    serving.wait()


@contextlib.contextmanager
def guarded(home: Path) -> Iterator[str]:
    """A dashboard over TLS that asks for a token, from a thread of its own; `token` and `ca.crt` are in `home`."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(home / "ca.crt")
    certificate.cert_chain_pems[0].write_to_path(home / "tls.crt")
    certificate.private_key_pem.write_to_path(home / "tls.key")
    (home / "token").write_text(TOKEN)
    dashboard_options = DashboardOptions(
        "127.0.0.1:0", str(home / "token"), str(home / "tls.crt"), str(home / "tls.key")
    )
    loop, is_over, began = asyncio.new_event_loop(), asyncio.Event(), queue.SimpleQueue[str]()

    async def serve() -> None:
        cluster = Cluster()
        cluster.go_round()
        async with dashboard.serve_dashboard(dashboard_options, cluster.published, cluster) as url:
            began.put(url)
            await is_over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        yield began.get(timeout=command_process.PATIENCE_S)
    finally:
        loop.call_soon_threadsafe(is_over.set)
        thread.join()
        loop.close()


@needs_tmux
def test_a_running_story_is_watched_explained_and_left(
    served: tuple[str, "subprocess.Popen[bytes]"], terminal: Terminal
) -> None:
    address, serving = served
    terminal.run("top", "--address", address)
    terminal.wait_for("simulated tiny", "Nodes by name", "● general-", "cpu █", "Pending pods", "Decisions")
    terminal.wait_for("▲ up", "scale up general 1→4")
    terminal.type("Down", "Enter")
    terminal.wait_for("Esc closes", "node general-", "group MachineDeployment/default/general")
    terminal.escape_from("Esc closes")
    terminal.type("s")
    terminal.wait_for("Nodes by cpu")
    terminal.type("/")
    terminal.wait_for("filter by text")
    terminal.type("-l", "no such node")
    terminal.type("Enter")
    terminal.wait_for("with “no such node”")
    command_process.wait_until(lambda: "● general-" not in terminal.screen)  # rows are drawn after the title
    assert "with “no such node”" in terminal.screen
    terminal.escape_from("with “no such node”")
    terminal.wait_for("● general-")
    terminal.type("p")
    terminal.wait_for("paused")
    serving.kill()
    terminal.wait_for("paused", "onnect")
    terminal.type("q")
    terminal.wait_for("ended with 0")


@needs_tmux
def test_a_moment_of_a_recording_is_shown(tmp_path: Path, terminal: Terminal) -> None:
    (tmp_path / "tiny.yaml").write_text(sample_plans.TINY)
    played = windlass("simulate", tmp_path / "tiny.yaml", "--record", tmp_path / "tiny.rec", "--report", "")
    assert played.code == 0, played.err
    terminal.run("top", "--recording", tmp_path / "tiny.rec", "--at", "2m10s")
    terminal.wait_for("recorded tiny.rec", "▲ up", "◌ ", "booting", "10× default/web-")
    terminal.type("q")
    terminal.wait_for("ended with 0")


@needs_tmux
def test_a_token_and_a_certificate_of_ones_own_are_enough_for_another_machine(
    terminal: Terminal, tmp_path: Path
) -> None:
    with guarded(tmp_path) as address:
        flags = ("--token-file", tmp_path / "token", "--certificate-authority", tmp_path / "ca.crt")
        terminal.run("top", "--address", address, *flags)
        terminal.wait_for("Nodes by name", "○ a-0", "Pending pods", "default/large")
        terminal.type("Down", "Enter")
        terminal.wait_for("Esc closes", "node a-0")
        terminal.escape_from("Esc closes")
        terminal.type("q")
        terminal.wait_for("ended with 0")


@needs_tmux
def test_without_the_token_it_says_how_to_give_one(terminal: Terminal, tmp_path: Path) -> None:
    with guarded(tmp_path) as address:
        terminal.run("top", "--address", address, "--certificate-authority", tmp_path / "ca.crt")
        terminal.wait_for(": a token is needed: --token-file, or WINDLASS_TOKEN", "ended with 2")


@needs_tmux
def test_where_nobody_answers_that_is_said_before_the_screen_is_taken(terminal: Terminal) -> None:
    terminal.run("top", "--address", f"127.0.0.1:{command_process.find_port()}")
    terminal.wait_for("windlass: 127.0.0.1:", "no autoscaler answers there", "ended with 2")


def test_without_a_terminal_it_says_what_to_use_instead() -> None:
    outcome = windlass("top")
    assert (outcome.code, outcome.out) == (2, "")
    assert "top: found no terminal, expected one; `windlass status` prints the same once" in outcome.err


def test_without_textual_it_says_in_one_line_what_to_install() -> None:
    script = "import sys; sys.modules['textual'] = None; from windlass import cli; cli.main(['top'])"
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "windlass: top needs the extra `tui`: install it with pip install 'windlass-autoscaler[tui]'\n"
