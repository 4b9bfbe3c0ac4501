"""Spellings and roundings were compared with apimachinery 0.36; the tables keep what is easy to get wrong."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import quantity
from windlass.kube import fields

INT64_MAX = 2**63 - 1

ACCEPTED = [
    # spelling, thousandths, whole units, canonical form
    ("0", 0, 0, "0"),
    ("1", 1000, 1, "1"),
    ("+1", 1000, 1, "1"),
    ("-1", -1000, -1, "-1"),
    ("007", 7000, 7, "7"),
    ("1.5", 1500, 2, "1500m"),
    ("1.", 1000, 1, "1"),
    (".5", 500, 1, "500m"),
    ("500m", 500, 1, "500m"),
    ("1000m", 1000, 1, "1"),
    ("1500u", 2, 1, "1500u"),
    ("1n", 1, 1, "1n"),
    ("0.1n", 1, 1, "1n"),
    ("-0.1n", -1, -1, "-1n"),
    ("1k", 10**6, 10**3, "1k"),
    ("1M", 10**9, 10**6, "1M"),
    ("1G", 10**12, 10**9, "1G"),
    ("1T", 10**15, 10**12, "1T"),
    ("1P", 10**18, 10**15, "1P"),
    ("1E", INT64_MAX, 10**18, "1E"),
    ("1Ki", 1024_000, 1024, "1Ki"),
    ("1.5Gi", 1536 * 2**20 * 1000, 1536 * 2**20, "1536Mi"),
    ("1023Ki", 1023 * 1024_000, 1023 * 1024, "1023Ki"),
    ("0.5Ki", 512_000, 512, "512"),
    ("0.0001Ki", 103, 1, "102400u"),
    ("1Ei", INT64_MAX, 2**60, "1Ei"),
    ("8Ei", INT64_MAX, INT64_MAX, str(INT64_MAX)),
    ("1e3", 10**6, 1000, "1e3"),
    ("1E3", 10**6, 1000, "1e3"),
    ("1e+3", 10**6, 1000, "1e3"),
    ("1e-3", 1, 1, "1e-3"),
    ("12e-10", 1, 1, "2e-9"),
    ("1e05", 10**8, 10**5, "100e3"),
    ("100000000000000000000", INT64_MAX, INT64_MAX, "100E"),
    # No digit at all is zero.
    ("+", 0, 0, "0"),
    (".", 0, 0, "0"),
    ("m", 0, 0, "0"),
    ("Ki", 0, 0, "0"),
]

REFUSED = [
    "", " ", " 1", "1 ", "1 Gi", "1_000", "１", "1K", "1ki", "1KI", "1mm", "1mi", "1i", "1e", "1e3Ki", "1Kim",
    "1.5.3", "--1", "1-", "1m3", "0x10", "inf", "nan", "1,5", "1e--3", "1e3.5", "1e99999999999999999999", "Ei", "Pi",
    "e-12", "1\n", "one",
]  # fmt: skip


@pytest.mark.parametrize(("text", "milli", "whole", "canonical"), ACCEPTED)
def test_accepted_spellings(text: str, milli: int, whole: int, canonical: str) -> None:
    amount = quantity.parse_quantity(text)

    assert (amount.milli_value(), amount.value(), str(amount)) == (milli, whole, canonical)


@pytest.mark.parametrize("text", REFUSED)
def test_refused_spellings(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        quantity.parse_quantity(text)


@pytest.mark.parametrize(("value", "expected"), [(None, 0), (2, 2), (0.5, 1), ("3", 3), (" 3 ", 3), (1e21, INT64_MAX)])
def test_json_values_that_stand_for_a_quantity(value: object, expected: int) -> None:
    assert quantity.read_quantity(value).value() == expected


@pytest.mark.parametrize("value", [True, [], {}, float("inf"), "1.5.3"])
def test_json_values_that_stand_for_none(value: object) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        quantity.read_quantity(value)


def test_a_huge_exponent_is_read_in_no_time_and_stays_huge() -> None:
    assert quantity.parse_quantity("1e999999999999").value() == INT64_MAX
    assert quantity.parse_quantity("1e-999999999999") == quantity.parse_quantity("1n")


SCALES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
digits = st.text("0123456789", min_size=1, max_size=12)
signs = st.sampled_from(["", "+", "-"])
exponents = st.integers(-12, 20).map(lambda power: f"e{power}")
suffixes = st.sampled_from([*SCALES, *BINARY]) | exponents
numbers = st.builds(
    lambda sign, whole, rest: sign + whole + rest, signs, digits, st.just("") | digits.map(".{}".format)
)
spellings = st.builds(str.__add__, numbers, suffixes)


def exact(number: str, suffix: str) -> Fraction:
    """The amount that a spelling stands for, before any rounding."""
    if suffix in BINARY:
        return Fraction(number) * int(2 ** BINARY[suffix])
    power = SCALES[suffix] if suffix in SCALES else int(suffix[1:])
    return Fraction(number) * Fraction(10) ** power


@given(numbers, suffixes)
def test_amounts_are_exact_down_to_nano_units_and_rounded_away_from_zero_below(number: str, suffix: str) -> None:
    wanted = exact(number, suffix)
    read = Fraction(quantity.parse_quantity(number + suffix).nano, 10**9)

    if suffix in BINARY and abs(wanted) > INT64_MAX:
        assert abs(read) == INT64_MAX
    else:
        assert abs(wanted) <= abs(read) < abs(wanted) + Fraction(1, 10**9)
        assert read * wanted >= 0


@given(spellings)
def test_printed_and_parsed_again_it_is_the_same(text: str) -> None:
    amount = quantity.parse_quantity(text)

    assert quantity.parse_quantity(str(amount)) == amount
    assert str(quantity.parse_quantity(str(amount))) == str(amount)


@given(spellings, spellings)
def test_order_is_that_of_the_amounts(left: str, right: str) -> None:
    a, b = quantity.parse_quantity(left), quantity.parse_quantity(right)

    assert (a < b, a == b, a > b) == (a.nano < b.nano, a.nano == b.nano, a.nano > b.nano)
    if a == b:
        assert hash(a) == hash(b)


@given(st.integers(-(10**6), 10**6))
def test_equal_amounts_are_equal_however_they_are_spelled(number: int) -> None:
    spelled = [f"{number}", f"{number}000m", f"{number}e0", f"{number}.0", f"{number * 1000}e-3"]

    amounts = [quantity.parse_quantity(text) for text in spelled]
    assert len(set(amounts)) == 1
    assert not any(a < b for a in amounts for b in amounts)


@given(spellings)
def test_whole_units_and_thousandths_round_away_from_zero(text: str) -> None:
    amount = quantity.parse_quantity(text)

    for rounded, unit in ((amount.value(), 10**9), (amount.milli_value(), 10**6)):
        if abs(rounded) < INT64_MAX:
            assert abs(rounded) * unit >= abs(amount.nano) > (abs(rounded) - 1) * unit


@given(spellings, spellings)
def test_sums_lose_nothing(left: str, right: str) -> None:
    a, b = quantity.parse_quantity(left), quantity.parse_quantity(right)

    assert (a + b).nano == a.nano + b.nano


@pytest.mark.parametrize("text", ["1e5000", "9" * 5000, "9" * 5000 + "." + "9" * 5000, "1" + "0" * 4500 + "E"])
def test_no_amount_of_an_object_grows_beyond_what_an_int64_holds(text: str) -> None:
    found = fields.read_quantity(text, "spec")
    assert (found.value(), found.milli_value()) == (quantity.INT64_MAX, quantity.INT64_MAX)
    assert len(str(found.nano)) <= 28
    assert fields.read_quantity(f"-{text}", "spec").value() < -quantity.INT64_MAX + 1


@pytest.mark.parametrize(("text", "milli"), [("0" * 5000 + "1", 1000), ("0." + "0" * 5000 + "1", 1), ("0" * 5000, 0)])
def test_digits_that_say_nothing_are_read_however_many_they_are(text: str, milli: int) -> None:
    assert fields.read_quantity(text, "spec").milli_value() == milli


@pytest.mark.parametrize("text", ["1e5000", "-1e5000", "9" * 6000, "1" + "0" * 4999 + "1", "9" * 5000 + "Ki"])
def test_every_quantity_can_be_printed(text: str) -> None:
    parsed = quantity.parse_quantity(text)
    assert quantity.parse_quantity(str(parsed)) == parsed
    assert str(parsed) in repr(parsed)


def test_a_sum_of_very_different_amounts_is_printed_in_full() -> None:
    total = quantity.parse_quantity("1e5000") + quantity.parse_quantity("1")
    assert str(total) == "1" + "0" * 4999 + "1"
    assert repr(total) == f"Quantity('{total}')"
