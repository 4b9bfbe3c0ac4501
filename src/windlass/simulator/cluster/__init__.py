"""Simulated cluster: everything around the autoscaler, on the embedded API server, in virtual time.

Lives here: workload controllers, Cluster API's controllers, kubelets, node lifecycle, cloud. Each component hears every
change, keeps its own state, and syncs what is due; `event_loop` gives them turns until nothing is left, then time
jumps. Components meet only through API objects. Random numbers come from one seeded generator per component. Objects
are parsed JSON, shared and never changed in place: `api_objects` makes changed copies. Never here: a rule shared with
the engine, a wall clock, or anything that knows the autoscaler. Imitate `daemon_sets.py`.
"""
