"""Which settings suit a workload? One world, played with many settings and seeds.

Lives here: `trying`, what is to be tried; `plan`, every run of it; `playing`, one run; `processes` and `clusters`, who
plays the runs; `ledger`, what is kept of those that are over; `comparing`, `tradeoffs` and `student`, what they say
together; `page`, `plot` and `export`, how that is shown. Never here: a rule of the simulation, or a decision.

The table follows from the plan alone: not from who played a run, nor from the order in which runs ended.
"""
