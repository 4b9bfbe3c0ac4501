"""Most pods: the options that schedule the most pods."""

from collections.abc import Sequence

from windlass.engine.model.scale_up_status import ExpansionOption


def find_best_options(options: Sequence[ExpansionOption]) -> list[ExpansionOption]:
    most = max((option.pod_count for option in options), default=0)
    return [option for option in options if option.pod_count == most]
