"""Batch: capacity that users ask for by objects of autoscaling.x-k8s.io, read, followed and answered.

Lives here: how those objects are read into what the engine decides on, and how its answers are written. Never here: a
decision. `reading.py` is the file to imitate.
"""
