import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import formatting, quantity


@pytest.mark.parametrize(
    ("resource", "amount", "exact", "short"),
    [
        ("cpu", 2500, "2500m", "2500m"),
        ("cpu", 4000, "4", "4"),
        ("memory", 8 << 30, "8Gi", "8Gi"),
        ("memory", (8 << 30) - 1, "8589934591", "8191Mi"),
        ("memory", 3_372_220_416, "3216Mi", "3216Mi"),
        ("memory", 3_372_220_417, "3372220417", "3216Mi"),
        ("memory", 500, "500", "500"),
        ("memory", -(1 << 30) - 1, "-1073741825", "-1073741825"),
        ("nvidia.com/gpu", 3, "3", "3"),
        ("example.com/tokens", 123456789, "123456789", "123456789"),
    ],
)
def test_amounts_are_spelt_exactly_and_shortly(resource: str, amount: int, exact: str, short: str) -> None:
    assert formatting.format_quantity(resource, amount) == exact
    assert formatting.format_short_quantity(resource, amount) == short


@given(st.integers(0, 2**55))
def test_short_amounts_never_overstate_what_is_free_nor_understate_what_is_needed(amount: int) -> None:
    low = quantity.parse_quantity(formatting.format_short_quantity("memory", amount)).value()
    high = quantity.parse_quantity(formatting.format_short_quantity("memory", amount, up=True)).value()

    assert low <= amount <= high
    assert (high - low) * 64 <= amount
    assert len(formatting.format_short_quantity("memory", amount)) <= 7


@given(
    st.integers(-(2**55), 2**55), st.sampled_from(["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "a.com/b"])
)
def test_an_exact_amount_is_read_back_as_it_was(amount: int, resource: str) -> None:
    read = quantity.parse_quantity(formatting.format_quantity(resource, amount))

    assert (read.milli_value() if resource == "cpu" else read.value()) == amount


def test_money_has_the_currency_that_is_set_and_none_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    amounts = (0.0, 0.0052, 0.3, 12.345, 1234.5)
    assert [formatting.format_money(amount) for amount in amounts] == ["0.00", "0.0052", "0.30", "12.35", "1,234"]
    assert formatting.format_money_per_hour(0.3) == "0.30/h"
    monkeypatch.setenv(formatting.CURRENCY_VARIABLE, "$")
    assert formatting.format_money_per_hour(12.3) == "$12.30/h"
    monkeypatch.setenv(formatting.CURRENCY_VARIABLE, "EUR")
    assert formatting.format_money(0.05) == "0.05 EUR"
    assert formatting.format_money(0.05, "$") == "$0.05"
