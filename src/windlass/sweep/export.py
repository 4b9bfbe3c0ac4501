"""The table for programs: JSON and CSV, with the same columns."""

import csv
import io
from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.sweep import tradeoffs
from windlass.sweep.comparing import MEASURES, Row
from windlass.sweep.plan import Plan


def encode_json(plan: Plan, rows: Sequence[Row]) -> str:
    front = {row.number for row in tradeoffs.find_front(rows)}
    told = {
        "scenario": plan.world.scenario.name,
        "seeds": plan.seeds,
        "settings": [_plain(row, row.number in front) for row in rows],
        "best": [{"why": one.title, "settings": one.row.number, "flags": paste(one.row)}
                 for one in tradeoffs.advise(rows)],
    }  # fmt: skip
    return msgspec.json.format(msgspec.json.encode(told), indent=2).decode()


def _plain(row: Row, is_best: bool) -> dict[str, Any]:
    return {
        "number": row.number,
        "isCurrent": row.number == 0,
        "isBestTradeOff": is_best,
        "isSound": row.is_sound,
        "flags": row.values,
        "means": {name: round(one.mean, 4) for name, one in row.estimates.items()},
        "spreads": {name: round(one.spread, 4) for name, one in row.estimates.items()},
        "differences": {
            name: {
                "mean": round(one.mean, 4),
                "margin": round(one.margin, 4) if one.margin != float("inf") else None,
                "isBeyondChance": one.is_less or one.is_more,
            }
            for name, one in row.differences.items()
        },
        "violations": row.violations,
        "missed": row.missed,
        "failed": row.failed,
    }


def encode_csv(plan: Plan, rows: Sequence[Row]) -> str:
    front = {row.number for row in tradeoffs.find_front(rows)}
    names = [measure.name for measure in MEASURES]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    figures = [f"{name}{part}" for name in names for part in ("", "_spread", "_difference", "_margin")]
    writer.writerow(["number", "best", "sound", "violations", "missed", "failed", *figures, *plan.tried])
    for row in rows:
        marks = [row.number, row.number in front, row.is_sound, row.violations, len(row.missed), len(row.failed)]
        numbers = [number for name in names for number in _numbers(row, name)]
        writer.writerow([*marks, *numbers, *(row.values[flag] for flag in plan.tried)])
    return out.getvalue()


def _numbers(row: Row, name: str) -> list[str]:
    """Mean, spread, difference and margin; empty where there is none."""
    found = [row.estimates[name].mean, row.estimates[name].spread] if name in row.estimates else []
    found += [row.differences[name].mean, row.differences[name].margin] if name in row.differences else []
    return [f"{number:.4f}" for number in found] + [""] * (4 - len(found))


def paste(row: Row) -> str:
    """The flags as a command line takes them."""
    return " ".join(f"--{name}={value}" for name, value in row.flags.items())
