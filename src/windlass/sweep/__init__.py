"""Parameter sweeps: one scenario or trace, run with many settings and seeds.

Contents: the values to try (`search_space`), all runs of a sweep (`sweep_plan`), one run and the file of outcomes
(`run_outcomes`), local processes and Dask (`executors`), statistics and recommendations (`comparison`), output
(`tables`, `html_page`). Not here: a rule of the simulation, or a decision.

The table depends on the plan alone: not on the executor, nor on the order in which runs end.
"""
