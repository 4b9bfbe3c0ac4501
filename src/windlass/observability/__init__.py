"""Observability: metrics, events, status and logs of decisions, as Cluster Autoscaler has them.

Each output is a pure function from (observation, decision, plan result) to values, and a thin shell that keeps or
writes them. Nothing here influences a decision or delays the loop, and a failure costs that report alone. Imports the
engine, kube, runtime, explain and providers, never the autoscaler. Imitate `object_events` for a new event and
`gauge_values` for a new gauge.
"""
