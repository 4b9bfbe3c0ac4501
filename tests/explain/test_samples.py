"""The page of sample outputs shows what is printed."""

from tests.explain import samples


def test_the_page_shows_what_is_printed() -> None:
    page = samples.PAGE.read_text()
    for command, lines in samples.samples():
        assert samples.block(command, lines) in page, (
            f"run python -m tests.explain.samples: {command} is not as printed"
        )
