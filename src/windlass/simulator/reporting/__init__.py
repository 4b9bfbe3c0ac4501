"""Reporting: what people get to see of a simulation. The same bytes for the same runs.

Lives here: decisions as they are told (`chronicle`), figures as text (`figures`), the page (`page`, of the parts in
`charts`, `paths`, `timeline` and `tables`). Never here: measuring anything, the terminal, or how long a run took.
"""
