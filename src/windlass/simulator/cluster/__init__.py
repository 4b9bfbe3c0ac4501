"""Simulated cluster: everything around the autoscaler, on the embedded API server, in virtual time.

Contents: workload controllers, Cluster API's controllers, kubelets, node lifecycle, cloud. Each component receives
every change, keeps its own state, and syncs what is due; `event_loop` runs them until nothing is due, then advances
time. Components interact through API objects only. Random numbers come from one seeded generator per component. Objects
are parsed JSON, shared and never changed in place: `api_client` makes changed copies. Not here: a rule shared with the
engine, a wall clock, or knowledge of the autoscaler. Imitate `workloads.py`.
"""
