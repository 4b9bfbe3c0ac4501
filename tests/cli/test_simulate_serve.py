"""`windlass simulate --serve`: what is refused before anything is played, and who comes first while it is."""

import os
import sys
import threading
from pathlib import Path

import pytest

from tests.cli.run import windlass
from tests.cli.test_simulate import STORY
from windlass.cli.simulate import SIMULATION_NICENESS, serve_simulation
from windlass.simulator.autoscaler_run import ObservedSimulation
from windlass.simulator.scenario import loader


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--compare", "--expander=least-nodes"), "--serve: found 2 runs, accepted is one"),
        (("--speed", "-1"), "--speed: found -1, accepted are"),
        (("--serve-address", "nonsense"), "address: found 'nonsense', expected host:port"),
    ],
)
def test_what_cannot_be_shown_is_refused(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    story = tmp_path / "small.yaml"
    story.write_text(STORY)
    outcome = windlass("simulate", story, "--serve", *words)
    assert outcome.code == 2
    assert said in outcome.err


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a niceness of their own on Linux alone")
def test_the_story_lets_the_server_and_the_browser_run_first() -> None:
    found: dict[str, int] = {}

    def play() -> None:  # in a thread, because niceness cannot be taken back
        with serve_simulation(ObservedSimulation(loader.parse_scenario(STORY, "small")), "127.0.0.1:0"):
            found.update({item.name: _niceness(item) for item in threading.enumerate() if item.name not in before})

    before, own = {entry.name for entry in threading.enumerate()}, _niceness(threading.current_thread())
    story = threading.Thread(target=play, name="story")
    story.start()
    story.join()
    assert found.pop("story") == max(own, SIMULATION_NICENESS)
    assert set(found.values()) == {own}, "the server's"


def _niceness(thread: threading.Thread) -> int:
    assert thread.native_id is not None
    return os.getpriority(os.PRIO_PROCESS, thread.native_id)
