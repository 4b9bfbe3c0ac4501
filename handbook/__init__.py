"""The handbook: what the documents are made of and held to.

Lives here: reading the project's own code, and the pages of docs/reference that follow from it. Never here: prose. It
stands in docs/, and a reason's first sentence in docs/runbook.md is its sentence everywhere.

`python -m handbook` writes the pages anew. `pages.py` lists them; imitate `metrics.py`.
"""
