"""Scenarios: small YAML files with node groups, workloads, a timeline of events, and expectations.

Contents: the schema (`model`), the loader, which validates and reports every mistake with its line (`loader`), API
objects of workloads (`manifests`), and the driver of the timeline (`driver`). Not here: behaviour of the simulated
cluster.
"""
