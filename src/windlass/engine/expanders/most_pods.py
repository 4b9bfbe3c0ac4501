"""Most pods: the options that help the most pods."""

from collections.abc import Sequence

from windlass.engine.expanders.option import Option


def keep(options: Sequence[Option]) -> list[Option]:
    most = max((option.pod_count for option in options), default=0)
    return [option for option in options if option.pod_count == most]
