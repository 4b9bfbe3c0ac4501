"""Actuation: drains and deletes the nodes that scale-down chose, or rolls them back.

    tainting ──▶ settling ──▶ (revalidation) ──▶ evicting ⇄ terminating ──▶ held ──▶ batching ──▶ deleting ──▶ gone
       │            │               │                  │                   │           │           │
       └────────────┴───────────────┴───── failed ─────┴───────────────────┴───────────┴───────────┘
                                             └──▶ rolling back ──▶ rolled back

A drain is a state machine, not a thread. Its state is read from the cluster (taint, pods) and from a few times in
durable memory (`model.drains`); each call runs the due steps of `drain_loop.DRAIN_STEPS` and returns the time of
the next one. A step looks at drains that no earlier step has settled, and settles them (`wait`, `fail`, `end`) or
leaves them to the next step.

Not here: which nodes go (`scale_down`), whether a pod may leave (`drainability`), API calls.
"""
