from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.autoscaler.options import command_line, flag_values, flags
from windlass.errors import InvalidInput


def read(*arguments: str) -> command_line.AutoscalerCommand:
    return command_line.parse_command_line(command_line.split_arguments(arguments))


def refuse(*arguments: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        read(*arguments)
    return str(caught.value)


@pytest.mark.parametrize("words", [["--max-nodes-total=7"], ["--max-nodes-total", "7"], ["--max_nodes_total", "7"]])
def test_a_value_follows_its_flag_or_an_equals_sign(words: list[str]) -> None:
    assert read(*words).settings.limits.max_nodes_total == 7


def test_a_value_may_look_like_a_flag_or_be_empty() -> None:
    assert read("--expendable-pods-priority-cutoff", "-5").settings.pods.expendable_pods_priority_cutoff == -5
    assert read("--user-agent", "--v=3").options.clients.user_agent == "--v=3"
    assert read("--memory-config-map=").options.objects.memory_config_map == ""
    assert read("--node-group-auto-discovery=clusterapi:a=b").options.node_groups.node_group_auto_discovery == (
        "clusterapi:a=b",
    )


@pytest.mark.parametrize(("word", "expected"), [("", True), ("=true", True), ("=false", False), ("=0", False)])
def test_a_bool_needs_no_value(word: str, expected: bool) -> None:
    assert read(f"--leader-elect{word}").options.leader_election.leader_elect is expected
    assert read(f"--balance-similar-node-groups{word}").settings.scale_up.balance_similar_node_groups is expected


def test_a_bool_never_takes_the_next_word() -> None:
    command = read("--leader-elect", "false", "--v=1")

    assert command.options.leader_election.leader_elect
    assert command.options.logging.v == 1
    assert command.warnings == (
        "'false' belongs to no flag and is ignored; the value of a bool needs an equals sign: --flag=false",
    )


@pytest.mark.parametrize("words", [["-v=4"], ["-v", "4"], ["-v4"], ["--v=4"], ["--v", "4"]])
def test_verbosity_has_a_short_name(words: list[str]) -> None:
    assert read(*words).options.logging.v == 4


def test_two_dashes_end_the_flags() -> None:
    command = read("one", "--v=2", "-", "--", "--v=3", "--nonsense")

    assert command.options.logging.v == 2
    assert [warning.partition(" ")[0] for warning in command.warnings] == ["'one'", "'-'", "'--v=3'", "'--nonsense'"]


def test_the_last_value_counts_and_lists_add_up() -> None:
    command = read("--v=1", "--status-taint=a,b", "--v=2", "--status-taint", "c", "--bypassed-scheduler-names=x,y")

    assert command.options.logging.v == 2
    assert command.settings.templates.status_taint == ("a,b", "c")
    assert command.settings.pods.bypassed_scheduler_names == ("x", "y")


@pytest.mark.parametrize("word", ["--help", "-h", "--v=1 --help --nonsense"])
def test_help_may_be_asked_for_anywhere(word: str) -> None:
    assert command_line.split_arguments(word.split()).wants_help


def test_flags_that_change_nothing_are_told_once_each() -> None:
    command = read("--regional", "--gce-concurrent-refreshes=3", "--gce-concurrent-refreshes=4", "--ignore-taint=a")

    assert command.warnings == (
        "--regional: no effect: it applies to Google Cloud only",
        "--gce-concurrent-refreshes: no effect: it applies to Google Cloud only",
        "--ignore-taint: an old name of --startup-taint",
    )


def test_of_an_old_and_a_new_name_the_new_one_counts_and_that_is_told() -> None:
    command = read("--lease-resource-name=old", "--leader-elect-resource-name=new")

    assert command.options.leader_election.leader_elect_resource_name == "new"
    assert command.warnings == (
        "--lease-resource-name: an old name of --leader-elect-resource-name, which is set as well and applies",
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--scan-intervall=5s", "--scan-intervall: unknown flag; did you mean --scan-interval?"),
        ("--scan_intervall", "--scan_intervall: unknown flag; did you mean --scan-interval?"),
        ("--qwertz", "--qwertz: unknown flag"),
        ("-logtostderr=true", "-logtostderr=true: unknown flag; did you mean --logtostderr?"),
        ("-x", "-x: unknown flag"),
        ("--=5", "--=5: found no flag name, expected --<flag> or --<flag>=<value>"),
        ("---v=5", "---v=5: found no flag name, expected --<flag> or --<flag>=<value>"),
        ("--v=1 --kubeconfig", "--kubeconfig: found no value, expected one (text)"),
        ("-v=", "--v: found '=', expected a whole number, 0 or more"),
        ("--v=", "--v: found '', expected a whole number, 0 or more"),
        ("--regional=maybe", "--regional: found 'maybe', expected true or false"),
        ("--predicate-parallelism=0", "--predicate-parallelism: found '0', expected a whole number, 1 or more"),
        ("--cloud-provider=aws", "--cloud-provider: found 'aws', expected clusterapi, the only provider"),
        ("--address=8085", "--address: found '8085', expected host:port, or :port for every interface"),
        ("--logging-format=xml", "--logging-format: found 'xml', expected text or json"),
        ("--vmodule=a=b", "--vmodule: found 'a=b', expected <pattern>=<level>"),
        ("--feature-gates=A=perhaps", "--feature-gates: found 'A=perhaps', expected <name>=true or <name>=false"),
        ("--log-json-info-buffer-size=much", "--log-json-info-buffer-size: found 'much', expected a quantity of bytes"),
        ("--dry-run --shadow", "--dry-run: found it together with --shadow"),
    ],
)
def test_what_is_wrong_is_told_with_the_flag(words: str, told: str) -> None:
    assert told in refuse(*words.split())


def test_a_file_for_the_scheduler_changes_the_filters(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles:\n- plugins:\n    multiPoint:\n      disabled:\n      - {name: TaintToleration}\n"
    )
    assert read(f"--scheduler-config-file={path}").settings.filters != read().settings.filters
    assert "absent.yaml" in refuse(f"--scheduler-config-file={tmp_path}/absent.yaml")


@given(st.lists(st.sampled_from(sorted(flags.READERS))))
def test_every_flag_takes_its_value_in_both_ways(names: list[str]) -> None:
    bools = {name for name in names if flags.READERS[name] in flag_values.BOOL_READERS}
    joined = command_line.split_arguments([f"--{name}=true" for name in names])
    words = [[f"--{name}"] if name in bools else [f"--{name}", "true"] for name in names]
    apart = command_line.split_arguments([word for pair in words for word in pair])

    assert joined.given == apart.given
    assert joined.stray == apart.stray == []


@given(st.integers(-(2**63), 2**63 - 1))
def test_whole_numbers_are_read_in_every_base_that_go_knows(number: int) -> None:
    sign, size = "-" if number < 0 else "", abs(number)
    for text in (str(number), f"{sign}0x{size:x}", f"{sign}0b{size:b}", f"{sign}0o{size:o}", f"{sign}0{size:o}"):
        assert flag_values.read_int([text]) == number
    assert flag_values.read_int([f"{number:_}"]) == number


@pytest.mark.parametrize("text", ["", " 1", "1 ", "0x", "08", "1__0", "_1", "1_", "0b12", "1.0", "9223372036854775808"])
def test_what_go_takes_for_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a whole number"):
        flag_values.read_int([text])
