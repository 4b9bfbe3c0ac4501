"""Parameter sweeps: one scenario or trace, run with many settings and seeds.

Contents: the values to try, all runs of a sweep, one run, and the file of outcomes (`sweep_plan`), local processes and
Dask (`executors`), statistics and recommendations (`comparison`), output (`sweep_report`). Not here: a rule of the
simulation, or a decision.

The table depends on the plan alone: not on the executor, nor on the order in which runs end.
"""
