"""Controllers: small programs that each keep one kind of object as it should be.

    observe   what the informers hold, as facts                     no waiting
    decide    facts in, a plan out                                  pure: no clock, no I/O, no client
    act       the plan, carried out                                 failures come back as facts of the next pass
    report    status, events and metrics, from the plan             pure but for the writing
    controller  which changes wake which object, and nothing else

Lives here: one room per controller, and the frame that they all stand in (`following`, `controller`, `metrics`,
`operator`). Controllers are independent of each other: they meet only through API objects, so any of them may run
alone. What two of them share and the frame does not is a room below them (`worker_pools`: static and autoscaled pools).
`machine_pool` is the room to imitate.
"""
