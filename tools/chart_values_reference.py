"""Values of Cluster Autoscaler's chart: what each is called in ours."""

from dataclasses import dataclass
from pathlib import Path

import yaml

from tools import markdown_tables

_TABLE = Path(__file__).with_name("chart_values.yaml")


@dataclass(frozen=True, slots=True)
class Row:
    """A value of the other chart, or several, separated by commas; * is any end of a name."""

    old: str
    new: str = ""
    """Empty: ours has none, and the note says why."""
    note: str = ""
    copy: bool = False
    """Whether the value is taken over as it is."""


def find_rows() -> list[Row]:
    return [Row(**row) for row in yaml.safe_load(_TABLE.read_text(encoding="utf-8"))]


def page() -> str:
    lines = markdown_tables.begin(
        "Values of Cluster Autoscaler's chart",
        "What each value of the Helm chart `cluster-autoscaler` (version 9.59.0) is called in the chart of windlass, "
        "for `cloudProvider: clusterapi`. *as it is*: the value is copied under the new name. Values that the chart "
        "of windlass does not have are refused, and so are flags that do not exist. The steps are in "
        "[the migration guide](../migration.md), all values of ours in "
        "[the README of the chart](../../deploy/helm/windlass/README.md).",
    )
    rows = [
        (
            ", ".join(map(markdown_tables.code, row.old.split(", "))),
            markdown_tables.code(row.new) or "–",
            "; ".join([*["as it is"] * row.copy, *[row.note] * bool(row.note)]),
        )
        for row in sorted(find_rows(), key=lambda row: row.old.lower())
    ]
    lines += markdown_tables.table(("Cluster Autoscaler's chart", "here", "how"), rows)
    lines += [
        "Flags that the other chart presets, for the same log as before:",
        "",
        "```yaml",
        "autoscaler:",
        "  extraArgs: {logtostderr: true, stderrthreshold: info, v: 4}",
        "  flags: {behavior: cluster-autoscaler}  # decisions as before; without it, with the improvements of windlass",
        "```",
        "",
    ]
    return "\n".join(lines)
