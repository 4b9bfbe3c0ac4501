"""Draining: how a node that was chosen to go is emptied and deleted, or given back.

    marking ──▶ settling ──▶ (checked again) ──▶ evicting ⇄ terminating ──▶ held ──▶ gathering ──▶ deleting ──▶ gone
       │           │                 │                 │                     │           │            │
       └───────────┴─────────────────┴────── failed ───┴─────────────────────┴───────────┴────────────┘
                                                └──▶ rolling back ──▶ rolled back

A drain is a state, not a sleeping thread. Where it stands is read from the cluster (the node's mark, its pods) and from
a few times in memory (`progress.py`); each call takes the steps that are due and says until when it may rest. So
nothing is lost if the process dies: the next one goes on from what it sees.

Lives here: one file for each step, taken in the order of `engine.advance.STEPS`. A step looks at the cases that no step
before it has settled, and either settles a case (`wait`, `fail`, `end`) or leaves it to the next. Never here: which
nodes go (`scale_down/` knows), whether a pod may leave (`drain/` knows), calling anyone.

Imitate `deleting.py`: what the step waits for in the docstring, one function per question.
"""
