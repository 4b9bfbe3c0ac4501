"""Words on a command line: they are understood, or refused with the flag that is wrong."""

import random

import pytest
from hypothesis import given

from tests import strategies
from tests.malformed_objects import mutations
from windlass.autoscaler.options import command_line, flags
from windlass.errors import InvalidInput

NAMES = sorted(flags.READERS)
VALUES = (
    *mutations.ODD_TEXTS,
    "1h1h",
    "-5m",
    "9999999h",
    "1e9",
    "0:1:2",
    "a:b:c",
    "cpu:1:2",
    "true,false",
    "least-waste,,",
)


@given(mutations.seeds)
@strategies.examples(400)
def test_whatever_the_words_are_flags_are_read_or_refused(chance: random.Random) -> None:
    words = []
    for _ in range(chance.randrange(1, 6)):
        name, value = chance.choice(NAMES), chance.choice(VALUES)
        words += chance.choice(([f"--{name}={value}"], [f"--{name}", value], [f"-{name}={value}"], [value]))
    try:
        command_line.parse_command_line(command_line.split_arguments(words))
    except InvalidInput as error:
        assert str(error) != ""  # noqa: PT017


@pytest.mark.parametrize("name", NAMES)
def test_an_error_names_the_flag(name: str) -> None:
    for value in VALUES:
        try:
            command_line.parse_command_line(command_line.split_arguments([f"--{name}={value}"]))
        except InvalidInput as error:
            assert name.split("-")[0] in str(error)  # noqa: PT017
