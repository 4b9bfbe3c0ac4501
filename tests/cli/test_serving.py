"""`windlass simulate --serve`: what is refused before anything is played."""

from pathlib import Path

import pytest

from tests.cli.run import windlass
from tests.cli.test_simulate import STORY


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
