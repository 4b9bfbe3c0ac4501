"""Shadow mode: decide on the same cluster as another autoscaler, act on nothing, and compare.

    what is seen ──▶ deeds (what the other did) ──▶ take_over ──▶ decide ──▶ wishes (what we would do)
                         │                                            │              │
                         │                                            └─▶ follow ────┼──▶ memory of the next loop
                         └──────────────────────▶ settle ◀───────────────────────────┘
                                                    └─▶ verdicts: metrics, log, summary

Lives here: pure functions over values, and `shadow.py`, the one object that a process keeps of them. Never here: a
decision, or anything that changes the cluster. Deeds are read from sizes of groups, marks on nodes and events, all of
which any user of the cluster may read; whoever else changes a group is taken for the other autoscaler.
"""
