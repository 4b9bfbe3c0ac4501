"""A cluster that breathes: everything around the autoscaler, on the embedded API server, in virtual time.

Lives here: the scheduler's loop, workload controllers, Cluster API's side, machines and kubelets. Each part is told of
every change (`react`), keeps what it needs to know, and works off what has become due (`act`); `pulse` gives them their
turn until nothing is left to do, and then lets time jump. Parts meet only through API objects. Chance comes from one
seeded generator per part, time from the pulse's clock. Never here: a rule shared with the engine, a wall clock, or
anything that knows the autoscaler.

Objects are parsed JSON that is shared and never changed in place: `edit` makes changed copies.

Imitate `replica_sets.py`.
"""
