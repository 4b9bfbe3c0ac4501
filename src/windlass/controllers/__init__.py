"""Controllers: one package per reconciled kind, run together by `windlass operator`.

    model       facts that a reconcile reads, the plan that it returns, settings and names; values only
    reconcile   facts in, a plan out: pure, without clock, I/O or client
    controller  watches and indexes, executes the plan, writes status, events and metrics
    webhook     defaulting and validation for admission, where there is any

`controller_runtime` is the frame: informers, work queue, reconcile loop. Controllers are independent of each other
and meet only through API objects. `lattice` is the smallest, `machine_pool` the most complete example.
"""
