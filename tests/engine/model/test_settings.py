import dataclasses

import pytest

from windlass.engine.model import deviations, node_groups, settings

OVERRIDES = [
    ("scale_down_utilization_threshold", "scale_down_utilization_threshold", 0.0),
    ("scale_down_gpu_utilization_threshold", "scale_down_gpu_utilization_threshold", 0.9),
    ("scale_down_unneeded_s", "scale_down_unneeded_time_s", 0.0),
    ("scale_down_unready_s", "scale_down_unready_time_s", 7.0),
    ("max_node_provision_s", "max_node_provision_time_s", 8.0),
    ("max_node_startup_s", "max_node_startup_time_s", 9.0),
    ("ignore_daemonsets_utilization", "ignore_daemonsets_utilization", False),
    ("zero_or_max", "zero_or_max", True),
    ("allow_non_atomic_scale_up_to_max", "allow_non_atomic_scale_up_to_max", True),
]


def test_a_group_without_options_follows_the_settings() -> None:
    chosen = settings.Settings(groups=settings.GroupDefaults(scale_down_unneeded_time_s=1.0))
    assert settings.for_group(chosen, node_groups.GroupOptions()) == chosen.groups


@pytest.mark.parametrize(("option", "field", "value"), OVERRIDES)
def test_a_group_overrides_one_setting_alone(option: str, field: str, value: float) -> None:
    defaults = settings.GroupDefaults(ignore_daemonsets_utilization=True)
    group_defaults = settings.for_group(settings.Settings(groups=defaults), node_groups.GroupOptions(**{option: value}))  # type: ignore[arg-type]
    assert group_defaults == dataclasses.replace(defaults, **{field: value})  # type: ignore[arg-type]


def test_every_option_of_a_group_is_covered() -> None:
    assert {option for option, _, _ in OVERRIDES} == {
        field.name for field in dataclasses.fields(node_groups.GroupOptions)
    }


def test_presets_differ_in_deviations_alone() -> None:
    peer = settings.Settings.cluster_autoscaler()
    assert peer != settings.Settings()
    assert dataclasses.replace(peer, deviations=deviations.ALL_DEVIATIONS) == settings.Settings()


def test_no_field_name_occurs_twice() -> None:
    """Names are flags, so they are unique across groups."""
    groups = [getattr(settings.Settings(), field.name) for field in dataclasses.fields(settings.Settings)]
    names = [field.name for group in groups if dataclasses.is_dataclass(group) for field in dataclasses.fields(group)]
    assert len(names) == len(set(names))


def test_settings_are_values() -> None:
    assert settings.Settings() == settings.Settings()
    assert hash(settings.Settings()) == hash(settings.Settings())
