"""Kubernetes on the wire: models, quantities, selectors, requests.

Lives here: the API's spelling and what it takes to read it exactly as Kubernetes does. Never here: a decision, or
anything of the engine; the two meet in `autoscaler.observe`. `requests.py` is the file to imitate.
"""
