"""What documents say holds: links lead somewhere, command lines are accepted, flags exist."""

import shlex
from pathlib import Path

import cyclopts
import pytest

from tools import cli_reference, markdown_documents, source_analysis
from windlass.autoscaler.options import command_line, flags
from windlass.cli import app
from windlass.errors import InvalidInput

DOCUMENTS = markdown_documents.find_documents()
SIMPLE = {"--flag", "--bare", "--no-", "--help"}
"""What stands for any flag, a flag of the test bed, the beginning of a flag's opposite, and what every program has."""


def name(path: Path) -> str:
    return str(path.relative_to(source_analysis.ROOT))


def parse(program: str, words: list[str]) -> str:
    """What is wrong with a command line of ours; empty if nothing is. Flags that are handed on are read as well."""
    try:
        if program == "cluster-autoscaler" or words[:1] == ["autoscaler"]:
            command_line.parse_command_line(
                command_line.split_arguments(words if program == "cluster-autoscaler" else words[1:])
            )
            return ""
        given = app.parse_args(words, exit_on_error=False, print_error=False)[1].arguments
        handed_on = [word for item in given.get("compare") or () for word in shlex.split(item)]
        command_line.parse_command_line(command_line.split_arguments([*given.get("flags", ()), *handed_on]))
    except (InvalidInput, cyclopts.CycloptsError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    broken = []
    for link in markdown_documents.find_links(path):
        if link.startswith(("http://", "https://")):
            continue
        target, _, anchor = link.partition("#")
        found = (path.parent / target).resolve() if target else path
        known = markdown_documents.find_anchors(found) if found.suffix == ".md" and found.is_file() else frozenset()
        if not found.exists() or (anchor and anchor not in known):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_command_lines_are_accepted(path: Path) -> None:
    wrong = {}
    for program, words in markdown_documents.find_commands(markdown_documents.find_blocks(path)):
        if complaint := parse(program, words):
            wrong[" ".join([program, *words])] = complaint
    assert wrong == {}


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_commands_in_sentences_exist(path: Path) -> None:
    said = [
        words[0]
        for program, words in markdown_documents.find_commands(markdown_documents.find_spans(path))
        if program == "windlass" and words
    ]
    known = {*cli_reference.find(), "COMMAND"}
    assert [word for word in said if not word.startswith("-") and word not in known] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_flags_exist(path: Path) -> None:
    known = {f"--{flag}" for flag in flags.READERS} | cli_reference.find_options() | SIMPLE
    begun = {flag for flag in markdown_documents.find_flags(path) if flag.endswith("-")}
    unknown = {flag for flag in markdown_documents.find_flags(path) if flag not in known} - begun
    unknown |= {flag for flag in begun - SIMPLE if not any(item.startswith(flag) for item in known)}
    assert sorted(unknown) == []


def test_what_is_wrong_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A\n\n`--no-such-flag`, [x](gone.md)\n\n```sh\nwindlass simulate --colour=red   # so\n```\n")
    assert list(markdown_documents.find_flags(page)) == ["--colour", "--no-such-flag"]
    assert list(markdown_documents.find_links(page)) == ["gone.md"]
    [(program, words)] = markdown_documents.find_commands(markdown_documents.find_blocks(page))
    assert (program, words) == ("windlass", ["simulate", "--colour=red"])
    assert parse(program, words)
    assert parse("windlass", ["autoscaler", "--scan-intervall=1s"])
    assert parse("windlass", ["plan", "--scan-interval=often"])
    assert parse("windlass", ["simulate", "day", "--compare", "--expander=cheapest"])
    assert not parse("windlass", ["simulate", "day", "--compare", "--expander=price --v=1"])
