"""Reports of simulation runs as text and HTML; the same bytes for the same runs.

Lives here: the summary table (`summary`), the page (`page`) with its charts and timeline, and number formats. Never
here: measuring anything, the terminal, or how long a run took.
"""
