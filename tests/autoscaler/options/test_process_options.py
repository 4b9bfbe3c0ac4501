import pytest

from tests.autoscaler.options.test_flags import value_of
from windlass.autoscaler.options import flags, process_options
from windlass.engine.model import settings
from windlass.errors import InvalidInput


def test_no_flag_leaves_everything_at_its_default() -> None:
    assert flags.parse_process_options({}) == process_options.ProcessOptions()


def test_each_flag_sets_its_own_field_alone() -> None:
    samples = {"bool": ["true", "false"], "int": ["7"], "float": ["0.25"], "text": ["x"], "verbosity": ["3"]}
    for name, flag in flags.PROCESS_FLAGS.items():
        for text in samples.get(flag.read.__name__.removeprefix("read_"), []):
            chosen = flags.parse_process_options({name: text})
            assert value_of(chosen, flag) == flag.read([text])
            for other in flags.PROCESS_FLAGS.values():
                if other != flag:
                    assert value_of(chosen, other) == other.default, (name, other.name)


def test_flags_of_decisions_change_no_wire_and_the_other_way_round() -> None:
    assert not flags.DECISION_FLAGS.keys() & flags.PROCESS_FLAGS.keys()
    assert (
        flags.parse_process_options({"scan-interval": "5s", "behavior": "cluster-autoscaler"})
        == process_options.ProcessOptions()
    )
    assert flags.parse_settings({"leader-elect": "false", "v": "4", "regional": "true"}) == settings.Settings()


def test_the_first_loop_never_gets_less_time_than_the_others() -> None:
    assert flags.parse_process_options({"max-failing-time": "30m"}).loop.max_startup_time_s == 1800.0
    assert flags.parse_process_options({"max-startup-time": "1m"}).loop.max_startup_time_s == 900.0
    assert flags.parse_process_options({"max-startup-time": "1h"}).loop.max_startup_time_s == 3600.0


def test_the_lease_is_in_the_own_namespace_unless_told_otherwise() -> None:
    assert flags.parse_process_options({"namespace": "a"}).lease_namespace == "a"
    assert (
        flags.parse_process_options({"namespace": "a", "leader-elect-resource-namespace": "b"}).lease_namespace == "b"
    )


@pytest.mark.parametrize("mode", ["dry-run", "shadow"])
def test_who_changes_nothing_takes_no_lease(mode: str) -> None:
    assert flags.parse_process_options({}).leads
    chosen = flags.parse_process_options({mode: "true"})
    assert (chosen.acts, chosen.leads) == (False, False)


def test_errors_name_the_flag() -> None:
    with pytest.raises(InvalidInput, match="--max-inactivity: found '10', expected a duration"):
        flags.parse_process_options({"max-inactivity": "10"})


def test_a_recording_has_a_limit_that_is_worth_a_file() -> None:
    assert flags.parse_process_options(
        {"record": "file", "record-limit": "7"}
    ).recording == process_options.RecordingOptions("file", 7)
    with pytest.raises(InvalidInput, match="--record-limit: found '0', expected a whole number, 1 or more"):
        flags.parse_process_options({"record-limit": "0"})
