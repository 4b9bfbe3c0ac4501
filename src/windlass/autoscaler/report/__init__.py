"""Reporting: what windlass shows the world, exactly as Cluster Autoscaler does.

Lives here: events, the status ConfigMap, metrics, /snapshotz and the lines that sum up a loop, each first as a pure
function from (observation, decision, outcome) to values, then a thin shell that keeps or writes them. Never here: an
influence on a decision, a wait that the loop would feel, a failure that the loop would see.

    events.py         what is told to whom; pod_events, repair_events, drain_events by occasion, words for phrases
    status.py         how things stand; status_text the YAML and back; status_writer the ConfigMap
    families.py       every metric; readings and counting their values; metrics the registry; exposition the text
    snapshotz.py      what a loop saw
    summary.py        what a loop did, in words
    accounts.py       all that is to be said of a decision, as one value
    reporter.py       the one whom the loop tells

Imitate `repair_events.py` for a new event, `readings.py` for a new gauge.
"""

from windlass.autoscaler.report.accounts import Account
from windlass.autoscaler.report.reporter import Reporter

__all__ = ["Account", "Reporter"]
