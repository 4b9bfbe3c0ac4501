"""Completion: the scripts that shells read, tried in bash itself."""

import shutil
import subprocess

import pytest

from tests.cli.run import windlass
from windlass.autoscaler.options import command_line


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_every_flag_of_the_autoscaler_is_in_the_script(shell: str) -> None:
    outcome = windlass("completion", shell)
    assert (outcome.code, outcome.err) == (0, "")
    for name in ("autoscaler", "operator", "completion", "version", "explain"):
        assert name in outcome.out
    flags = [entry.name for _, entries in command_line.find_sections() for entry in entries]
    assert [name for name in flags if name not in outcome.out] == []


def complete(*words: str) -> list[str]:
    """What bash offers for the last word."""
    script = windlass("completion", "bash").out
    asked = (
        f'COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; _windlass; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    answer = subprocess.run(["bash", "-c", f"{script}\n{asked}"], capture_output=True, text=True, check=True)
    return answer.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="NOT TRIED: there is no bash here")
def test_bash_completes_commands_options_and_flags() -> None:
    assert complete("windlass", "comp") == ["completion"]
    assert complete("windlass", "completion", "z") == ["zsh"]
    assert complete("windlass", "operator", "--eks") == ["--eks-anywhere-namespace"]
    assert sorted(complete("windlass", "autoscaler", "--v=4", "--scale-down-un")) == [
        "--scale-down-unneeded-time",
        "--scale-down-unready-enabled",
        "--scale-down-unready-time",
    ]


def test_another_shell_is_refused_and_the_known_ones_are_named() -> None:
    outcome = windlass("completion", "ksh")
    assert outcome.code == 2
    assert "bash" in outcome.err
    assert "fish" in outcome.err
