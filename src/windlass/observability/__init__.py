"""Observability: metrics, events, status and logs of decisions, as Cluster Autoscaler has them.

Each output is a pure function from (observation, decision, plan result) to values, and a thin shell that stores or
writes them. Nothing here influences a decision or delays the loop, and an error affects one report only. Imports the
engine, kube, runtime, explain and providers, never the autoscaler. Imitate `object_events` for a new event and
`gauge_values` for a new gauge.
"""
