"""A small story whose machines take a while by chance, and plans of it."""

from windlass.simulator.scenario import loader, model
from windlass.sweep import sweep_plan

TINY = """
name: tiny
seed: 4
duration: 15m
flags: {scale-down-unneeded-time: 2m, scale-down-delay-after-add: 2m}
groups:
  - {name: general, min: 1, max: 6, capacity: {cpu: 4, memory: 16Gi}, price: 0.2, boot: {median: 30s, spread: 0.3}}
workloads:
  - {name: web, replicas: 2, requests: {cpu: 1, memory: 1Gi}}
timeline:
  - {at: 2m, do: scale, workload: web, to: 14}
  - {at: 8m, do: scale, workload: web, to: 2}
expect:
  - {measure: violations, at_most: 0}
  - {measure: most_nodes, at_least: 4}
"""


def scenario() -> model.Scenario:
    return loader.parse_scenario(TINY, "tiny")


def make_plan(*tried: str, seeds: int = 2, runs: int | None = None) -> sweep_plan.SweepPlan:
    return sweep_plan.make_plan(sweep_plan.SweepInput(scenario()), sweep_plan.parse_axes(tried), seeds, runs)
