"""Wrong command lines: none gives a traceback; each ends with a code and one or two lines that say what to do."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli import wrong_command_lines
from tests.cli.run import Outcome, windlass
from windlass.cli import error_messages


def assert_refused(words: list[str], outcome: Outcome) -> None:
    assert outcome.code in (1, 2), (words, outcome)
    assert 1 <= outcome.err.count("\n") <= 2, (words, outcome)
    assert "Traceback" not in outcome.err, words
    assert "internal error" not in outcome.err, (words, outcome)


def test_each_ends_with_a_line_that_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = list(wrong_command_lines.find_wrong(tmp_path))
    assert len({tuple(words) for words in wrong}) > 300
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for words in wrong:
        assert_refused(words, windlass(*words))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before, "nothing is written"


ANY_WORD = st.one_of(
    st.sampled_from(
        [*wrong_command_lines.COMMANDS, "pod", "-o", "json", "--output", "--at", "--address", "--recording", "-n"]
    ),
    st.text(max_size=12),
    st.sampled_from(
        ["--", "-", "=", "--=", "--set", "--try", "--seed", "-1", "1e400", "\x00", "\ud800", "/", "~", "..", "[["]
    ),
)


@settings(max_examples=150)
@given(
    command=st.sampled_from(["explain", "fit", "replay", "sweep", "version", "completion", "x"]),
    rest=st.lists(ANY_WORD, max_size=4),
)
def test_no_words_give_a_traceback(command: str, rest: list[str]) -> None:
    outcome = windlass(command, *rest)
    assert "Traceback" not in outcome.err
    assert "internal error" not in outcome.err, outcome.err
    assert outcome.code == 0 or outcome.err, (command, rest)


def test_a_bug_is_one_line_that_says_how_to_see_more(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit) as ended, error_messages.one_line_errors():
        raise KeyError("odd\nkey")
    assert ended.value.code == error_messages.INTERNAL_ERROR
    assert capsys.readouterr().err == (
        r"windlass: internal error: KeyError: 'odd\nkey'; WINDLASS_TRACEBACK=1 shows where; please report it" + "\n"
    )
    monkeypatch.setenv(error_messages.TRACEBACK_VARIABLE, "1")
    with pytest.raises(KeyError), error_messages.one_line_errors():
        raise KeyError("odd")


def test_a_message_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        error_messages.end("a\x1b[2J\u202eb\rc\td\nsecond line \u2713")
    assert capsys.readouterr().err == "windlass: a\\x1b[2J\\u202eb\\rc\\td\nsecond line \u2713\n"


def test_interruption_is_a_code_and_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, error_messages.one_line_errors():
        raise KeyboardInterrupt
    assert (ended.value.code, capsys.readouterr().err) == (130, "windlass: interrupted\n")


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("simul", "simul: no such command; did you mean simulate?; see windlass --help"),
        ("sttaus", "sttaus: no such command; did you mean status?; see windlass --help"),
        ("sim", "sim: no such command; did you mean simulate?; see windlass --help"),
    ],
)
def test_a_misspelt_command_is_suggested(word: str, line: str) -> None:
    assert windlass(word).err == f"windlass: {line}\n"


def test_help_is_a_command_as_well() -> None:
    assert windlass("help", "fit").out == windlass("fit", "--help").out
    assert windlass("help").out == windlass("--help").out


def test_a_report_is_not_written_over_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "report.html"
    mine.write_text("mine")
    ran = windlass("simulate", "burst")
    assert ran.code == 0
    assert ran.out.endswith("\nreport: report-2.html\n")
    assert mine.read_text() == "mine"
    assert windlass("simulate", "burst", "--report", "report.html").err == (
        "windlass: --report report.html: it exists and windlass did not write it; expected another file\n"
    )
    first = (tmp_path / "report-2.html").read_bytes()
    assert windlass("simulate", "burst", "--seed", "9", "--report", "report-2.html").code == 0
    assert (tmp_path / "report-2.html").read_bytes() != first, "a report that is named is made anew"
