"""`windlass autoscaler`: what is told before it runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.run import windlass
from windlass.autoscaler.options import command_line, flags
from windlass.cli.autoscaler import main
from windlass.engine.model import deviations


def test_help_lists_every_flag_with_its_default() -> None:
    outcome = windlass("autoscaler", "--help")

    assert (outcome.code, outcome.err) == (0, "")
    for name in flags.READERS:
        assert f"  --{name}  " in outcome.out
    assert "  --scan-interval  duration (default 10s)\n" in outcome.out
    assert "  --memory-total  min:max in GiB (default 0:6400000)\n" in outcome.out
    assert max(len(line) for line in outcome.out.splitlines() if line.startswith("        ")) <= 100


def test_the_command_is_listed() -> None:
    assert "Add nodes for pending pods" in windlass("--help").out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--scan-intervall=1s"], "--scan-intervall: unknown flag; did you mean --scan-interval?"),
        (["--v=1", "--max-nodes-total", "many"], "--max-nodes-total: found 'many', expected a whole number"),
        (["-x"], "-x: unknown flag"),
    ],
)
def test_a_wrong_flag_ends_it_with_exit_code_2(words: list[str], told: str) -> None:
    outcome = windlass("autoscaler", *words)
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"windlass: {told}\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--dashboard-address=:8086"],
            "--dashboard-address :8086: other machines can reach it; expected --dashboard-token-file",
        ),
        (["--dashboard-token-file=/no/such"], "--dashboard-token-file /no/such: cannot be read"),
        (["--dashboard-tls-cert-file=tls.crt"], "--dashboard-tls-cert-file: found one of it"),
    ],
)
def test_a_dashboard_that_cannot_be_served_ends_it_before_a_cluster_is_looked_for(words: list[str], told: str) -> None:
    outcome = windlass("autoscaler", "--kubeconfig=/no/such/file", *words)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"windlass: {told}")
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--drain-priority-config=1:2:3"], "--drain-priority-config: found '1:2:3', expected <priority>:<seconds>"),
        (["--drain-priority-config=0:30,"], "--drain-priority-config: found '0:30,', expected <priority>:<seconds>"),
        (["--drain-priority-config=0:soon"], "--drain-priority-config: found '0:soon', expected <priority>:<seconds>"),
        (["--drain-priority-config=0:-5"], "--drain-priority-config: found '0:-5', expected <priority>:<seconds>"),
        (
            ["--drain-priority-config=3000000000:5"],
            "--drain-priority-config: found '3000000000:5', expected <priority>",
        ),
        (["--cores-total=4"], "--cores-total: found '4', expected <min>:<max>"),
        (["--memory-total=8:4"], "--memory-total: found '8:4', expected <min>:<max>"),
        (["--gpu-total=a100:1"], "--gpu-total: found 'a100:1', expected <gpu type>:<min>:<max>"),
        (
            ["--node-group-auto-discovery=clusterapi:x"],
            "--node-group-auto-discovery=clusterapi:x: found 'x', expected ",
        ),
        (["--feature-gates=DRAConsumableCapacity"], "--feature-gates: found 'DRAConsumableCapacity', expected <name>="),
        (["--vmodule=loop"], "--vmodule: found 'loop', expected <pattern>=<level>"),
        (["--log-backtrace-at=loop.go"], "--log-backtrace-at: found 'loop.go', expected <file>:<line>"),
        (["--scheduler-config-file=/no/such"], "--scheduler-config-file: /no/such: "),
        (["--leader-elect-lease-duration=5s"], "--leader-elect-lease-duration: found 5 s, expected more than "),
        (
            ["--leader-elect-retry-period=9s"],
            "--leader-elect-renew-deadline: found 10 s, expected more than 1.2 times ",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_malformed_value_ends_it_before_a_cluster_is_looked_for(words: list[str], told: str) -> None:
    """As in Cluster Autoscaler; a value that it wraps around, or that would kill pods at once, is malformed, too."""
    outcome = windlass("autoscaler", "--kubeconfig=/no/such/file", *words)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.splitlines()[-1].startswith(f"windlass: {told}")


def test_times_of_an_election_do_not_matter_without_one() -> None:
    words = ["--leader-elect=false", "--leader-elect-lease-duration=5s"]
    assert "/no/such/file" in windlass("autoscaler", "--kubeconfig=/no/such/file", *words).err


def test_an_open_address_is_no_matter_where_nothing_is_served() -> None:
    outcome = windlass("autoscaler", "--kubeconfig=/no/such/file", "--dashboard-address=", "--logtostderr=false")
    assert "/no/such/file" in outcome.err


def test_it_can_be_called_as_cluster_autoscaler(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--skan-interval=1s"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "cluster-autoscaler: --skan-interval: unknown flag; did you mean --scan-interval?\n"
    )


def logged_behavior(*command: str) -> str:
    """The line about behavior in the log of a process that ends at its kubeconfig."""
    words = [sys.executable, "-c", f"from windlass.{command[0]} import main; main()", *command[1:]]
    run = subprocess.run([*words, "--kubeconfig=/no/such"], capture_output=True, text=True, check=False)
    (line,) = [line for line in run.stderr.splitlines() if "behavior=" in line]
    return line.partition("] ")[2]


@pytest.mark.parametrize(
    ("command", "logged"),
    [
        (["cli.autoscaler"], "behavior=cluster-autoscaler changed_by=none"),
        (["cli.autoscaler", "--behavior=windlass"], "behavior=windlass changed_by=none"),
        (
            ["cli.autoscaler", "--joint-scale-up", "--quiet-window=1s"],
            "behavior=cluster-autoscaler changed_by=--joint-scale-up,--quiet-window",
        ),
        (["cli", "autoscaler"], "behavior=windlass changed_by=none"),
        (["cli", "autoscaler", "--joint-scale-up"], "behavior=windlass changed_by=none"),
        (["cli", "autoscaler", "--behavior=cluster-autoscaler"], "behavior=cluster-autoscaler changed_by=none"),
    ],
    ids=" ".join,
)
def test_it_decides_as_cluster_autoscaler_when_called_so_and_says_what_it_follows(
    command: list[str], logged: str
) -> None:
    assert logged_behavior(*command) == f"decisions follow {logged}"


def test_settings_of_the_entry_point_have_no_deviation() -> None:
    words = command_line.split_arguments(["--scan-interval=5s"])
    assert command_line.parse_command_line(words, "cluster-autoscaler").settings.deviations == deviations.NO_DEVIATIONS
    assert command_line.parse_command_line(words).settings.deviations == deviations.ALL_DEVIATIONS


def test_its_help_has_the_defaults_of_the_entry_point(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    drop_in, own = capsys.readouterr().out, windlass("autoscaler", "--help").out
    assert drop_in.startswith("Usage: cluster-autoscaler ")
    for shown, default, window in ((drop_in, "cluster-autoscaler", "0s"), (own, "windlass", "200ms")):
        assert f"  --behavior  name (default {default})\n" in shown
        assert f"  --quiet-window  duration (default {window})\n" in shown


def test_warnings_are_logged_and_a_cluster_that_is_none_ends_it() -> None:
    words = ["autoscaler", "--kubeconfig=/no/such/file", "--regional", "-v=1"]
    run = subprocess.run([sys.executable, "-m", "windlass", *words], capture_output=True, text=True, check=False)
    version, _, warning, error = run.stderr.splitlines()

    assert (run.returncode, run.stdout) == (2, "")
    assert version.startswith("I")
    assert "] windlass 0." in version
    assert warning.startswith("W")
    assert warning.endswith("] --regional: no effect: it applies to Google Cloud only")
    assert error == "windlass: kubeconfig /no/such/file: no such file"


def test_its_help_is_the_document() -> None:
    document = Path(__file__).parents[2] / "docs" / "flags.md"
    assert document.read_text() == command_line.format_markdown()


def test_every_flag_is_in_the_document_once() -> None:
    told = [entry.name for _, entries in command_line.find_sections() for entry in entries]
    assert sorted(told) == sorted(flags.READERS)


def test_the_document_can_be_made_again() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "windlass.autoscaler.options.command_line"], capture_output=True, text=True, check=True
    )
    assert made.stdout == command_line.format_markdown()


@pytest.mark.parametrize("flag", ["--user-agent", "--scheduler-config-file", "--namespace"])
@pytest.mark.parametrize("command", [["windlass.cli", "autoscaler"], ["windlass.cli.autoscaler"]])
def test_an_empty_value_takes_no_flag_with_it(flag: str, command: list[str]) -> None:
    """Both flags that follow are read: a process that refuses them together has seen that it is to stay dry."""
    code = f"import sys, importlib; importlib.import_module({command[0]!r}); sys.modules[{command[0]!r}].main()"
    words = [sys.executable, "-c", code, *command[1:], flag, "", "--dry-run", "--shadow", "--kubeconfig=/no/such/file"]
    run = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (run.returncode, run.stdout) == (2, "")
    assert "--dry-run: found it together with --shadow" in run.stderr


def test_no_flag_takes_one_that_keeps_it_from_acting_for_its_value() -> None:
    outcome = windlass("autoscaler", "--user-agent", "--dry-run", "--kubeconfig=/no/such/file")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        "windlass: --user-agent: found '--dry-run', expected a value; "
        "for an empty value write --user-agent= --dry-run\n"
    )


def test_a_flag_that_takes_another_for_its_value_is_warned_of() -> None:
    words = ["autoscaler", "--kubeconfig=/no/such/file", "--user-agent", "--max-nodes-total=3"]
    run = subprocess.run([sys.executable, "-m", "windlass", *words], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    warning = run.stderr.splitlines()[-2]
    assert warning.startswith("W")
    assert "--user-agent: takes the flag '--max-nodes-total=3' as its value" in warning


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["plan", "--user-agent", "", "--dry-run", "--shadow"], "--dry-run: found it together with --shadow"),
        (["status", "--user-agent", "", "--dry-run", "--shadow"], "--dry-run: found it together with --shadow"),
        (
            ["explain", "pod", "a", "--user-agent", "", "--dry-run", "--shadow"],
            "--dry-run: found it together with --shadow",
        ),
        (["operator", "--namespace", "", "--controllers", "none-such"], "none_such"),
    ],
)
def test_other_commands_keep_empty_words_as_well(words: list[str], told: str) -> None:
    outcome = windlass(*words)
    assert outcome.code == 2
    assert told in outcome.err
