"""The reference is made from the code, and whatever the code shows has a sentence of its own."""

from tools import (
    annotations_reference,
    cli_reference,
    crd_reference,
    events_reference,
    metrics_reference,
    reason_codes,
    reference_pages,
    scenario_reference,
    source_analysis,
    verdicts_reference,
)
from windlass.autoscaler.options import command_line, flags
from windlass.engine.model.drains import ENDED_PHASES, DrainPhase
from windlass.engine.model.scale_down_state import UnremovableReason


def test_the_pages_are_those_that_the_code_makes() -> None:
    stale = [str(path.relative_to(source_analysis.ROOT)) for path in reference_pages.find_stale()]
    assert stale == [], "run `make reference` and commit what it writes"


def test_nothing_else_is_among_the_pages() -> None:
    assert {path.name for path in reference_pages.FOLDER.glob("*.md")} == set(reference_pages.PAGES)


def test_every_flag_has_a_sentence() -> None:
    told = {entry.name: entry.told for _, entries in command_line.find_sections() for entry in entries}
    assert sorted(told) == sorted(flags.READERS)
    assert [name for name, sentence in told.items() if not sentence.endswith(".")] == []


def test_every_option_of_every_command_has_a_sentence() -> None:
    assert list(cli_reference.find_undescribed()) == []


def test_every_metric_has_a_sentence() -> None:
    assert [family.name for family in metrics_reference.find() if not family.help.endswith(".")] == []


def test_metrics_are_found_wherever_they_are_declared() -> None:
    found = {family.name: family.labels for family in metrics_reference.find()}
    assert found["windlass_shadow_verdicts_total"] == ("direction", "verdict")
    assert found["windlass_controller_reconcile_total"] == ("controller", "result")
    assert found["windlass_machine_pool_phase"] == ("namespace", "name", "phase")


def test_every_key_that_means_something_is_told() -> None:
    assert sorted(annotations_reference.find_used() - annotations_reference.find_told()) == []


def test_no_key_is_told_that_the_code_does_not_know() -> None:
    unused = annotations_reference.find_told() - annotations_reference.find_used()
    assert sorted(key for key in unused if not annotations_reference.is_mentioned(key)) == []


def test_every_reason_has_an_entry_in_the_runbook() -> None:
    assert sorted(set(reason_codes.find()) - set(events_reference.find())) == []


def test_reasons_are_found_by_place_by_variable_and_by_name() -> None:
    found = reason_codes.find()
    assert "observability.object_events" in found["ScaleUpTimedOut"]
    assert "controllers.machine_pool.conditions" in found["ContractUnknown"]
    assert "controllers.openshift.machine_autoscaler.model" in found["FailedGetTarget"]


def test_every_type_of_condition_in_the_code_of_controllers_is_told() -> None:
    types = {"Synchronized", "WorkersReady", "InputsValid", "Degraded"}
    assert types <= set(reason_codes.TYPES)
    assert all(sentence.endswith(".") for sentence in reason_codes.TYPES.values())


def test_every_verdict_about_nodes_has_a_sentence() -> None:
    assert {reason for reason, _ in verdicts_reference.find_kept()} == {str(reason) for reason in UnremovableReason}
    told = [
        *verdicts_reference.find_kept(),
        *verdicts_reference.find_failures(),
        *verdicts_reference.find_instructions(),
        *verdicts_reference.find_comparisons(),
    ]
    assert [word for word, sentence in told if not sentence.endswith(".")] == []


def test_every_phase_that_a_drain_can_be_in_has_a_sentence() -> None:
    assert {phase for phase, _ in verdicts_reference.find_phases()} == {
        str(phase) for phase in DrainPhase if phase not in ENDED_PHASES
    }


def test_every_custom_resource_says_what_it_is() -> None:
    assert list(crd_reference.find_undescribed()) == []


def test_every_field_of_a_scenario_has_a_sentence() -> None:
    assert list(scenario_reference.find_untold()) == []
