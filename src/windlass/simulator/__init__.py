"""Simulator: a cluster in memory and virtual time, with the real autoscaler process.

Contents: `reference_scheduler`, kube-scheduler in plain Python, which shares no rule with the engine, so that the two
can disagree; `fast_scheduler`, the same on arrays; `cluster`, the simulated cluster; `scenario` and `workload_trace`,
its workloads and events; `invariants`, which hold for any autoscaler; `metrics` and `report`, the results. `simulation`
assembles one run; `autoscaler_run` runs the real autoscaler in it. Not here: a rule shared with the engine, a wall
clock, or the real network.
"""
