"""Development tools: reference pages, RBAC manifests, licences, SBOM, audit, coverage.

The modules read the code without running it, and docs/reference follows from them. No prose here: that stands in docs/,
and the first sentence about a reason in docs/runbook.md is used everywhere.

`python -m tools` writes the pages. `reference_pages.py` lists them; `metrics_reference.py` is an example.
"""
