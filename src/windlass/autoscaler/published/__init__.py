"""The published status: how everything stands after a loop, as values, for all who watch.

Lives here: the one model that the dashboard, `windlass top` and the simulator's report read; how it follows from what a
loop saw and decided; what changed from one to the next; and the publisher, which hands it to whoever watches.
Never here: a decision, or a page. Nothing is asked of the engine again: what is told was decided.

    Observation, Decision ──▶ making.make ──▶ Status ──▶ changes.compare ──▶ Change ──▶ publisher ──▶ routes, web
                  └─────────▶ chronicle (what was done, and why)     ▲
                                                     changes.apply ──┘  on the other side

While nobody watches, a loop notes what it decided and one line of figures, and makes nothing else.
Imitate `changes.py`.
"""
