"""Reports of simulation runs as text and HTML; the same bytes for the same runs.

Contents: the summary table (`summary`), and the page (`page`) with its charts and timeline (`charts`). Not here:
measurements, terminal output, or the real time of a run.
"""
