"""Number formats: counts, percentages, money, durations and times as text."""

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400


def format_count(number: float, thing: str) -> str:
    return f"{number:,.0f} {thing}" if number == 1 else f"{number:,.0f} {thing}s"


def format_number(value: float) -> str:
    """Three figures or so: whole where that is enough."""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.2f}"


def format_percent(value: float) -> str:
    return f"{value:.0%}"


def format_money(value: float) -> str:
    return f"${value:,.0f}" if value >= 1000 else f"${value:,.2f}"


def format_duration(seconds: float) -> str:
    """`0s`, `42s`, `3m10s`, `2h05m`, `4d02h`."""
    whole = round(seconds)
    if whole < _MINUTE_S:
        return f"{seconds:.1f}s" if 0 < seconds < 10 and seconds != whole else f"{whole}s"
    if whole < _HOUR_S:
        return f"{whole // 60}m{whole % 60:02d}s" if whole % 60 else f"{whole // 60}m"
    if whole < 2 * _DAY_S:
        return f"{whole // _HOUR_S}h{whole % _HOUR_S // 60:02d}m"
    return f"{whole // _DAY_S}d{whole % _DAY_S // _HOUR_S:02d}h"


def format_time(at_s: float, lasts_s: float) -> str:
    """A time of the story: `13:30`, with the day in front if it takes several."""
    day, rest = divmod(round(at_s), _DAY_S)
    text = f"{rest // _HOUR_S:02d}:{rest % _HOUR_S // 60:02d}"
    return f"day {day + 1} {text}" if lasts_s > _DAY_S else text
