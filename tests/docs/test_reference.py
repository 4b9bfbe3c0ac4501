"""The reference is made from the code, and whatever the code shows has a sentence of its own."""

from handbook import commands, definitions, events, keys, metrics, pages, reasons, scenario, source, verdicts
from windlass.autoscaler.options import flag_help, flags
from windlass.engine.model.drains import ENDED_PHASES, DrainPhase
from windlass.engine.model.scale_down_state import UnremovableReason


def test_the_pages_are_those_that_the_code_makes() -> None:
    stale = [str(path.relative_to(source.ROOT)) for path in pages.find_stale()]
    assert stale == [], "run `make reference` and commit what it writes"


def test_nothing_else_is_among_the_pages() -> None:
    assert {path.name for path in pages.FOLDER.glob("*.md")} == set(pages.PAGES)


def test_every_flag_has_a_sentence() -> None:
    told = {entry.name: entry.told for _, entries in flag_help.find_sections() for entry in entries}
    assert sorted(told) == sorted(flags.READERS)
    assert [name for name, sentence in told.items() if not sentence.endswith(".")] == []


def test_every_option_of_every_command_has_a_sentence() -> None:
    assert list(commands.find_undescribed()) == []


def test_every_metric_has_a_sentence() -> None:
    assert [family.name for family in metrics.find() if not family.help.endswith(".")] == []


def test_metrics_are_found_wherever_they_are_declared() -> None:
    found = {family.name: family.labels for family in metrics.find()}
    assert found["windlass_shadow_verdicts_total"] == ("direction", "verdict")
    assert found["windlass_controller_reconcile_total"] == ("controller", "result")
    assert found["windlass_machine_pool_phase"] == ("namespace", "name", "phase")


def test_every_key_that_means_something_is_told() -> None:
    assert sorted(keys.find_used() - keys.find_told()) == []


def test_no_key_is_told_that_the_code_does_not_know() -> None:
    unused = keys.find_told() - keys.find_used()
    assert sorted(key for key in unused if not keys.is_mentioned(key)) == []


def test_every_reason_has_an_entry_in_the_runbook() -> None:
    assert sorted(set(reasons.find()) - set(events.find())) == []


def test_reasons_are_found_by_place_by_variable_and_by_name() -> None:
    found = reasons.find()
    assert "autoscaler.report.repair_events" in found["ScaleUpTimedOut"]
    assert "controllers.machine_pool.decide.troubles" in found["ContractUnknown"]
    assert "controllers.openshift.machine_autoscaler.names" in found["FailedGetTarget"]


def test_every_type_of_condition_in_the_code_of_controllers_is_told() -> None:
    types = {"Synchronized", "WorkersReady", "InputsValid", "Degraded"}
    assert types <= set(reasons.TYPES)
    assert all(sentence.endswith(".") for sentence in reasons.TYPES.values())


def test_every_verdict_about_nodes_has_a_sentence() -> None:
    assert {reason for reason, _ in verdicts.find_kept()} == {str(reason) for reason in UnremovableReason}
    told = [
        *verdicts.find_kept(),
        *verdicts.find_failures(),
        *verdicts.find_instructions(),
        *verdicts.find_comparisons(),
    ]
    assert [word for word, sentence in told if not sentence.endswith(".")] == []


def test_every_phase_that_a_drain_can_be_in_has_a_sentence() -> None:
    assert {phase for phase, _ in verdicts.find_phases()} == {
        str(phase) for phase in DrainPhase if phase not in ENDED_PHASES
    }


def test_every_custom_resource_says_what_it_is() -> None:
    assert list(definitions.find_undescribed()) == []


def test_every_field_of_a_scenario_has_a_sentence() -> None:
    assert list(scenario.find_untold()) == []
